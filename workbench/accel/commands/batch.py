"""`%accel batch`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.fastest_batch(
        largest=options.largest, budget_s=options.budget_s, watch=place.follow
    )


COMMAND = Command(
    "batch",
    "find the batch that trains the most samples a second, by measuring; nothing of yours changes",
    "%accel batch --largest 512",
    _run,
    (
        Argument(
            "--largest",
            help="try no batch of more samples than this (default: 64 times yours)",
            metavar="N",
            type=int,
            default=None,
        ),
        Argument(
            "--budget-s",
            help="end the search after so many seconds (default: 360)",
            metavar="SECONDS",
            type=float,
            default=None,
        ),
        OUT,
    ),
    in_python="fastest_batch",
)
