"""`%accel doctor`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.machine.installation import doctor

    return doctor()


COMMAND = Command(
    "doctor",
    "say what is installed, what is missing, and what each missing part would enable",
    "%accel doctor",
    _run,
    (OUT,),
    needs_notebook=False,
)
