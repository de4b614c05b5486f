"""`%accel undo`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.undo(options.name)


COMMAND = Command(
    "undo",
    "take back what was kept, all or one acceleration, bit for bit",
    "%accel undo channels_last",
    _run,
    (
        Argument(
            "name",
            help="the acceleration to take back (default: all)",
            metavar="NAME",
            nargs="?",
            completes="acceleration",
        ),
        OUT,
    ),
)
