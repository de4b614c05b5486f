"""`%accel history`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Command, switch

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    if place.has_workbench:
        return place.workbench.history(options.predictions)
    from accel.workbench.history_keeping import HistoryKeeper

    keeper = HistoryKeeper()
    return keeper.past_predictions() if options.predictions else keeper.past_trials()


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
        OUT,
    ),
    needs_notebook=False,
)
