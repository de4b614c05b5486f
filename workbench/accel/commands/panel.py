"""`%accel panel`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.open_panel()


COMMAND = Command(
    "panel",
    "open the workbench: phases, operations, switches and trials, all live",
    "%accel panel",
    _run,
    (OUT,),
)
