"""`%accel status`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.status()


COMMAND = Command(
    "status",
    "say what the workload is and which accelerations are kept",
    "%accel status",
    _run,
    (OUT,),
)
