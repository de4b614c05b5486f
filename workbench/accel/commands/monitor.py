"""`%accel monitor`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.bounds import check_seconds
from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.watch(options.seconds, options.every)


COMMAND = Command(
    "monitor",
    "watch CPUs, memory, this process and its workers, and GPUs while they work: live, and as means and peaks",
    "%accel monitor -o load",
    _run,
    (
        Argument(
            "--seconds",
            help="end after so many seconds (default: when it is closed; in a terminal, Ctrl-C)",
            metavar="SECONDS",
            type=float,
            default=None,
            check=check_seconds,
        ),
        Argument(
            "--every",
            help="take a sample every so many seconds (default: 0.5)",
            metavar="SECONDS",
            type=float,
            default=0.5,
            check=check_seconds,
        ),
        OUT,
    ),
    needs_notebook=False,
    beats=False,
)
