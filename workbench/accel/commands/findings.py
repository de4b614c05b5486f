"""`%accel findings`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import FULL, OUT, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.findings()


COMMAND = Command(
    "findings",
    "show again what costs time in the last profile, and what to do about it",
    "%accel findings",
    _run,
    (FULL, OUT),
)
