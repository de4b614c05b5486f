"""`%%accel ddp`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from accel.bounds import check_count, check_seconds
from accel.commands.command import OUT, Argument, Command, duration, names, switch
from accel.commands.where import LAUNCHER, PLACES
from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    if place.cell is None:
        raise AccelError(
            "%accel ddp",
            because="it trains a whole cell on ranks",
            do="Write %%accel ddp, with two %, as the first line of your training cell.",
        )
    return place.run_on_ranks(options)


def _lanes(result: Any, options: argparse.Namespace) -> object:
    """A run in the background shows what its ranks are doing, live."""
    return result if options.wait else result.panel()


COMMAND = Command(
    "ddp",
    "run this cell on several processes, of this machine or of a cluster, data-parallel; the trained state comes back to your "
    "objects",
    "%%accel ddp -n 2",
    _run,
    (
        Argument(
            "-n",
            help="so many ranks (default: 2, or those of the cluster)",
            metavar="RANKS",
            type=int,
            default=None,
            check=check_count,
        ),
        LAUNCHER,
        *PLACES,
        Argument(
            "--threads",
            help="threads of each rank (default: the CPUs that this notebook may use, shared out evenly)",
            metavar="T",
            type=int,
            default=None,
        ),
        Argument(
            "--backend",
            help="what ranks exchange gradients by (default: nccl with a GPU for each rank, else gloo); ccl is "
            "oneCCL on CPUs, experimental: see %accel oneccl",
            choices=("auto", "gloo", "nccl", "ccl"),
            default="auto",
        ),
        Argument(
            "--gpus",
            help="one a rank, as 0,3 (default: those that are joined best)",
            metavar="GPUS",
            default="auto",
        ),
        Argument(
            "--batch",
            help="each rank takes a batch of yours (per-rank), or a part of it (global), so that a step trains "
            "on the samples of one process (default: per-rank)",
            choices=("per-rank", "global"),
            default="per-rank",
        ),
        Argument(
            "--check",
            help="with --batch global, compare the first step of the ranks with that of one process: on warns if they "
            "differ, strict stops the run then, off compares nothing (default: on)",
            choices=("on", "strict", "off"),
            default="on",
        ),
        Argument(
            "--loaders",
            help="the loaders that are shared out, as train_loader,other (default: those that train, as they are seen)",
            metavar="NAMES",
            type=names,
            default=(),
            completes="loader",
        ),
        Argument(
            "--plan",
            help="accelerations that every rank applies, as autocast+compile_model (default: none)",
            metavar="PLAN",
            default="",
            completes="plan",
        ),
        Argument(
            "--timeout-s",
            "--timeout",
            help="a rank that does not come on for so long is stuck (default: 60)",
            metavar="SECONDS",
            type=duration,
            default=60.0,
            dest="timeout_s",
            check=check_seconds,
        ),
        switch("--all-output", "show at the end what the other ranks printed, too"),
        switch("--discard", "leave your objects as they were: the trained state is not brought back"),
        Argument(
            "--bucket-mb",
            help="megabytes of gradients that are sent together (default: 25, the first 1): smaller ones can be sent earlier",
            metavar="MB",
            type=float,
            default=None,
        ),
        switch("--static-graph", "every step uses the same parameters, which DDP may rely on"),
        Argument(
            "--compress",
            help="send gradients smaller: none, fp16, bf16 or powersgd:RANK, which changes the training (default: none)",
            metavar="HOW",
            default="none",
            completes="compression",
        ),
        switch(
            "--communication", "watch some steps: when each bucket of gradients was ready, sent and there"
        ),
        switch("--sync-batchnorm", "BatchNorm takes mean and variance over the samples of all ranks"),
        Argument(
            "--checkpoint",
            help="write checkpoints into this folder, and go on from the newest one of a run of this cell that did not end well",
            metavar="DIR",
        ),
        Argument(
            "--every",
            help="optimizer steps between two checkpoints (default: 100)",
            metavar="STEPS",
            type=int,
            default=100,
        ),
        Argument(
            "--max-restarts",
            help="start again from the last checkpoint by itself, when a rank died, at most so many times (default: 0)",
            metavar="N",
            type=int,
            default=0,
        ),
        Argument(
            "--background",
            help="return at once; the run goes on, and its state comes back between two cells",
            action="store_false",
            dest="wait",
        ),
        OUT,
    ),
    show=_lanes,
    takes_cell=True,
)
