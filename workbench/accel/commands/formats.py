"""`%accel formats`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.machine import read_machine
    from accel.machine.formats_of_machine import formats_of

    return formats_of(read_machine())


COMMAND = Command(
    "formats",
    "list number formats: what each can hold, and what the devices of this machine do with it",
    "%accel formats",
    _run,
    (OUT,),
    needs_notebook=False,
    in_python="number_formats",
)
