"""`%accel history`."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import TYPE_CHECKING

from accel.commands.command import FULL, OUT, Argument, Command, switch
from accel.errors import AccelError

if TYPE_CHECKING:
    from accel.commands.place import Place
    from accel.history import PastPredictions, PastTrials


def _run(options: argparse.Namespace, place: Place) -> object:
    if options.again is not None:
        if not place.has_workbench:
            raise AccelError(
                f"{place.program} history --again", because="it needs the notebook that the cell is in",
                do="Profile the cell there, then: %accel history --again",
            )  # fmt: skip
        from accel.workbench.measured_again import measured_again

        return measured_again(place.workbench, options.again, watch=place.follow)
    from accel.history import PastTrials

    past = _past(options.predictions, place)
    return replace(past, as_csv=options.csv) if isinstance(past, PastTrials) else past


def _past(predictions: bool, place: Place) -> PastTrials | PastPredictions:
    if place.has_workbench:
        return place.workbench.history(predictions)
    from accel.workbench.history_keeping import HistoryKeeper

    keeper = HistoryKeeper()
    return keeper.past_predictions() if predictions else keeper.past_trials()


def _check(options: argparse.Namespace, program: str) -> None:
    if options.predictions and (options.csv or options.again is not None):
        raise AccelError(
            f"{program} history --predictions", because="--csv and --again are for trials",
            do=f"Leave --predictions out, or take {program} history --predictions --json.",
        )  # fmt: skip


COMMAND = Command(
    "history",
    "list the trials of this machine, or predicted gains with measured ones",
    "%accel history --predictions",
    _run,
    (
        switch(
            "--predictions",
            "each finding's predicted gain with the measured one, and how good predictions have been",
        ),
        Argument(
            "--again",
            help="measure the plan of this number anew, on the same cell",
            metavar="NUMBER",
            type=int,
            default=None,
        ),
        switch("--csv", "print a table for a spreadsheet; --json prints everything too"),
        FULL,
        OUT,
    ),
    check=_check,
    needs_notebook=False,
)
