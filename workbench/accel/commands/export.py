"""`%accel export`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.export(to=options.to)


COMMAND = Command(
    "export",
    "write what is kept as plain PyTorch, without any dependency on accel",
    "%accel export --to cell",
    _run,
    (
        Argument(
            "--to",
            help="the form to write: cell is your own cell with the accelerations written in",
            choices=("cell",),
            default="cell",
        ),
        OUT,
    ),
)
