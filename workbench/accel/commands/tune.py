"""`%accel tune`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.bounds import check_seconds, check_share, check_steps, checked_size
from accel.commands.command import FULL, OUT, Argument, Command, duration, switch

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.tune(
        budget_s=options.budget_s,
        keep_quality=options.keep_quality,
        include=options.include or (),
        exclude=options.exclude or (),
        changes_training=options.changes_training,
        steps=options.steps,
        seed=options.seed,
        fit=options.fit,
        wait=options.wait,
        watch=place.follow,
    )


def share(text: str) -> float:
    """A share, with or without a percent sign.

    >>> share("0.5%"), share("0.005")
    (0.005, 0.005)
    """
    number = float(text.removesuffix("%"))
    return number / 100 if text.endswith("%") else number


COMMAND = Command(
    "tune",
    "find the plan that trains this cell fastest without making it worse, by measuring many",
    "%accel tune --budget-s 120",
    _run,
    (
        Argument(
            "--budget-s",
            help="seconds for all of it (default: 120)",
            metavar="SECONDS",
            type=duration,
            default=120.0,
            check=check_seconds,
        ),
        Argument(
            "--keep-quality",
            help="by how much losses, or the quality reached, may be worse, such as 0.5%% (default: losses follow step by step)",
            metavar="SHARE",
            type=share,
            default=None,
            check=check_share,
        ),
        Argument(
            "--include",
            help='only these accelerations, or these settings of them, such as "loader_workers(n=4)"',
            metavar="NAME",
            nargs="+",
            default=None,
            completes="acceleration",
        ),
        Argument(
            "--exclude",
            help="not these accelerations",
            metavar="NAME",
            nargs="+",
            default=None,
            completes="acceleration",
        ),
        switch(
            "--changes-training",
            "also what changes the training (larger batches, pruning), if it is as good sooner",
        ),
        Argument(
            "--steps",
            help="optimizer steps of the real training, over which compiling has to pay off (default: of the profiled run)",
            metavar="N",
            type=int,
            default=None,
            check=check_steps,
        ),
        Argument(
            "--fit",
            help="the fastest plan that takes no more memory than this at its peak, such as 2GiB, also where it costs time",
            metavar="SIZE",
            default=None,
            check=checked_size,
        ),
        Argument(
            "--seed", help="of the search's random draws (default: 0)", metavar="N", type=int, default=0
        ),
        Argument(
            "--background",
            help="return at once; the search goes on and the kernel stays free",
            action="store_false",
            dest="wait",
        ),
        FULL,
        OUT,
    ),
)
