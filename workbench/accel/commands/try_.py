"""`%accel try`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.bounds import check_seconds
from accel.commands.command import FULL, ON, OUT, Argument, Command
from accel.errors import AccelError
from accel.measuring.quality_target import QualityTarget

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.workbench.try_(
        *options.plans,
        on=options.on,
        wait=options.wait,
        watch=place.follow,
        budget_s=options.budget_s,
        timeout_s=options.timeout_s,
        until=options.until,
        train_s=options.train_s,
        seeds=options.seeds,
        held_out=options.held_out,
        metric=options.metric,
        better=options.better,
        start=options.start,
    )


def _has_plan(options: argparse.Namespace, program: str) -> None:
    if not options.plans:
        raise AccelError(
            f"{program} try",
            because="no plan is named",
            do=f"Name one, as in {program} try channels_last; {program} accelerations lists them.",
        )


def _check_target(asked: str, text: str) -> None:
    QualityTarget.parse(text)


COMMAND = Command(
    "try",
    "measure one or more plans against the baseline, on copies: nothing of yours changes",
    '%accel try channels_last autocast(dtype="bf16")+fused_optimizer',
    _run,
    (
        Argument(
            "plans",
            help="accelerations joined by +, several plans apart by spaces",
            metavar="PLAN",
            nargs="*",
            completes="plan",
        ),
        ON,
        Argument(
            "--background",
            help="return at once; the trial goes on and the kernel stays free",
            action="store_false",
            dest="wait",
        ),
        Argument(
            "--budget-s",
            help="end the trial after so many seconds, decided or not (default: 240; with --until 600, with --train-s enough)",
            metavar="SECONDS",
            type=float,
            default=None,
            check=check_seconds,
        ),
        Argument(
            "--timeout-s",
            help="a worker silent for so long is stuck (default: 60)",
            metavar="SECONDS",
            type=float,
            default=60.0,
            check=check_seconds,
        ),
        Argument(
            "--until",
            help='train each plan until it is as good on held-out data, as in "accuracy>=0.95"; compares seconds of training',
            metavar="TARGET",
            default=None,
            check=_check_target,
        ),
        Argument(
            "--train-s",
            help="train each plan for so many seconds; compares quality on held-out data",
            metavar="SECONDS",
            type=float,
            default=None,
            check=check_seconds,
        ),
        Argument(
            "--seeds",
            help="with --until or --train-s: from how many seeds (default: 3, the fewest that have an interval)",
            metavar="N",
            type=int,
            default=None,
        ),
        Argument(
            "--held-out",
            help="with --until or --train-s: the loader that tells quality (default: the one whose name says so)",
            metavar="NAME",
            default=None,
            completes="variable",
        ),
        Argument(
            "--metric",
            help="with --until or --train-s: accuracy, loss, or a function of yours (model, loader) that gives a number",
            metavar="NAME",
            default=None,
            completes="variable",
        ),
        Argument(
            "--better",
            help="with --train-s: which values of the metric are better (default: known by its name)",
            choices=("higher", "lower"),
            default=None,
        ),
        Argument(
            "--start",
            help="with --until or --train-s: each seed starts from new weights, or from yours as they are now, "
            "with other batches and dropout (default: new where torch's own initialisation can draw them)",
            choices=("new", "same"),
            default=None,
        ),
        FULL,
        OUT,
    ),
    check=_has_plan,
    in_python="try_",
)
