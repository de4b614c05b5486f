"""`%accel export`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.export(to=options.to, plan=options.plan)


COMMAND = Command(
    "export",
    "write what is kept as plain PyTorch, without any dependency on accel",
    "%accel export --to cell",
    _run,
    (
        Argument(
            "--to",
            help="cell: your own cell with the accelerations written in; shell, dockerfile, apptainer: a file that starts a "
            "program with PLAN",
            choices=("cell", "shell", "dockerfile", "apptainer"),
            default="cell",
        ),
        Argument(
            "plan", help="of the other forms: what to start with", metavar="PLAN", nargs="?", completes="plan"
        ),
        OUT,
    ),
)
