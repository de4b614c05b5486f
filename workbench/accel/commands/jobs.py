"""`%accel jobs`: the jobs that launchers run: how far they are, their logs, their end, and their state brought home."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from accel.commands.command import OUT, Argument, Command, switch

if TYPE_CHECKING:
    from accel.commands.place import Place

DOES = ("list", "logs", "stop", "cancel", "home", "remove")


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.distributed.jobs.jobs_here import jobs_asked

    take_home = place.take_home if place.has_workbench else None
    return jobs_asked(options.does, options.name, take_home, anyway=options.anyway)


def _live(result: Any, _options: argparse.Namespace) -> object:
    """A list of jobs moves while they do."""
    return result.panel() if hasattr(result, "rows") else result


COMMAND = Command(
    "jobs",
    "list the jobs of torchrun, mpirun and SLURM, read their logs, stop or cancel one, bring its trained state home",
    "%accel jobs home 9d27",
    _run,
    (
        Argument(
            "does",
            help="list (default), logs, stop (all ranks end after the same step), cancel (end it now), home (wait for it, "
            "and put its state into your objects) or remove (its folder)",
            nargs="?", default="list", choices=DOES,
        ),
        Argument("name", help="a job, by its whole name or its last letters", nargs="?", default=None, metavar="JOB"),
        switch("--anyway", "remove a job whose state is not home yet; bring home one whose state is there already"),
        OUT,
    ),
    show=_live,
    needs_notebook=False,
)  # fmt: skip
