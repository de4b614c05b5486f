"""`%accel affinity`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.machine.affinity import affinity

    return affinity(pid=options.pid)


def _core_map(result: Any, options: argparse.Namespace) -> object:
    """The live map; the text where this system reports no threads."""
    return result if result.why_not else result.panel()


COMMAND = Command(
    "affinity",
    "show the cores and which threads, loader workers and ranks are on them, and any problems",
    "%accel affinity",
    _run,
    (
        Argument(
            "--pid",
            help="show another process, with its workers and ranks, by its number",
            metavar="PID",
            type=int,
            default=None,
        ),
        OUT,
    ),
    show=_core_map,
    needs_notebook=False,
)
