"""`%accel sweep`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command, duration, names

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.sweep(options)


COMMAND = Command(
    "sweep",
    "train your cell on 1, 2, 4 … processes and threads, or GPUs: time, speed-up, efficiency, quality; nothing of yours changes",
    "%accel sweep --processes 1,2,4 --threads 1,2,4",
    _run,
    (
        Argument(
            "--processes",
            help="how many processes, as 1,2,4 (default: ever more, which share all CPUs out among them)",
            metavar="NUMBERS",
            default="",
        ),
        Argument(
            "--threads",
            help="how many threads each, as 1,2,4, each with each number of processes (default: ever more for one process)",
            metavar="NUMBERS",
            default="",
        ),
        Argument(
            "--backends",
            help="what processes exchange gradients by, as gloo,nccl (default: gloo; with --gpus nccl)",
            metavar="NAMES",
            type=names,
            default=(),
            completes="backend",
        ),
        Argument(
            "--gpus",
            help="in place of CPUs: how many GPUs, one a process, as 1,2,4 or 1..8",
            metavar="NUMBERS",
            default="",
        ),
        Argument(
            "--rounds",
            help="run each configuration so often, in an order drawn anew for each round; 3 or more have an "
            "interval (default: 1)",
            metavar="N",
            type=int,
            default=1,
        ),
        Argument(
            "--steps",
            help="end each run after so many optimizer steps, and compare rates (default: the whole cell)",
            metavar="N",
            type=int,
            default=None,
        ),
        Argument(
            "--budget-s",
            help="end each run after so many seconds of training, and compare rates",
            metavar="SECONDS",
            type=float,
            default=None,
        ),
        Argument(
            "--batch",
            help="each process takes a batch of yours (per-rank), or a part of it (global) (default: per-rank)",
            choices=("per-rank", "global"),
            default="per-rank",
        ),
        Argument(
            "--held-out",
            help="the loader that tells quality (default: the one whose name says so)",
            metavar="NAME",
            default=None,
            completes="variable",
        ),
        Argument(
            "--metric",
            help="accuracy, loss, or a function of yours (model, loader) that gives a number",
            metavar="NAME",
            default=None,
            completes="variable",
        ),
        Argument(
            "--timeout-s",
            "--timeout",
            help="a process that does not come on for so long is stuck (default: 60)",
            metavar="SECONDS",
            type=duration,
            default=60.0,
            dest="timeout_s",
        ),
        OUT,
    ),
    takes_cell=True,
)
