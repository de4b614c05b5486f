"""`%accel keep`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import ON, OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.keep(options.plan, on=options.on, as_kernel=options.as_kernel)


COMMAND = Command(
    "keep",
    "keep a plan, so that your own cells run with it: the fastest plan of the last trial whose loss follows, or the one named",
    "%accel keep channels_last",
    _run,
    (
        Argument("plan", help="the plan to keep", metavar="PLAN", nargs="?", completes="plan"),
        ON,
        Argument(
            "--as-kernel",
            metavar="NAME",
            default=None,
            help="install a Jupyter kernel that starts with the plan: for what a running one cannot take",
        ),
        OUT,
    ),
)
