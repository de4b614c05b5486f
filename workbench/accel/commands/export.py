"""`%accel export`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.bounds import check_count
from accel.commands.command import OUT, Argument, Command
from accel.commands.where import PLACES

if TYPE_CHECKING:
    from accel.commands.place import Place


PLACE_NAMES = tuple(argument.keyword for argument in PLACES)


def _run(options: argparse.Namespace, place: Place) -> object:
    places = {name: getattr(options, name) for name in PLACE_NAMES}
    return place.workbench.export(to=options.to, plan=options.plan, n=options.n, **places)


COMMAND = Command(
    "export",
    "write what is kept as plain PyTorch, without any dependency on accel",
    "%accel export --to cell",
    _run,
    (
        Argument(
            "--to",
            help="cell: your own cell with the accelerations written in; shell, dockerfile, apptainer: a file that starts a "
            "program with PLAN; script: the whole training as one program; torchrun, mpirun, slurm: the same, with a script that "
            "starts it on ranks",
            choices=("cell", "shell", "dockerfile", "apptainer", "script", "torchrun", "mpirun", "slurm"),
            default="cell",
        ),
        Argument(
            "plan", help="of the other forms: what to start with", metavar="PLAN", nargs="?", completes="plan"
        ),
        Argument("-n", help="so many ranks", metavar="RANKS", type=int, default=None, check=check_count),
        *PLACES,
        OUT,
    ),
)
