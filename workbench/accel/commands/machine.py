"""`%accel machine`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.machine import read_machine

    return read_machine(again=True)


COMMAND = Command(
    "machine",
    "show the hardware and software that measurements are made on",
    "%accel machine",
    _run,
    (OUT,),
    needs_notebook=False,
)
