"""Measure a plan of the history anew, and say what it was then."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.history.records import INTERRUPTED, RUNNING, SEARCH, interval
from accel.measuring.ladder import Ladder

if TYPE_CHECKING:
    from accel.history import TrialRecord
    from accel.measuring.time_to_quality import TimeToQuality
    from accel.workbench.workbench import Workbench


def measured_again(
    workbench: Workbench, number: int, *, watch: Callable[[Any], Any] | None = None
) -> Ladder | TimeToQuality:
    """Try the plan of that row of the history on the present cell, which must be the row's.

    >>> print(measured_again(workbench, 1))
    """
    asked = f"%accel history --again {number}"
    workload = workbench.workload_to_train(f"history --again {number}")
    known = dict(workbench.history_keeper.past_trials().numbered)
    row = known.get(number)
    if row is None:
        raise AccelError(
            asked, because=f"the history has the numbers 1 to {len(known)}" if known else "nothing was measured yet",
            do="See %accel history.",
        )  # fmt: skip
    if not workbench.history_keeper.is_of(row, workload):
        raise AccelError(
            asked,
            because=f"it was measured on another cell ({row.described})",
            do="Profile that cell, then try again.",
        )
    if row.plan == SEARCH:
        raise AccelError(
            asked, because="it was a search, and ended before it had measured a plan", do="Search again: %accel tune"
        )  # fmt: skip
    if row.asked.startswith("after "):
        raise AccelError(
            asked,
            because=f"it compares quality {row.asked}",
            do=f"Write it out: %accel try {row.plan} --train-s SECONDS",
        )
    result: Any = workbench.try_(row.plan, until=row.asked or None, watch=watch)
    answer: Ladder | TimeToQuality = result
    return replace(answer, notes=(*answer.notes, _then(row))) if isinstance(answer, Ladder) else answer


def _then(row: TrialRecord) -> str:
    """What was measured the last time."""
    if math.isnan(row.ratio):
        found = f"{row.verdict}, without a figure" if row.verdict in (RUNNING, INTERRUPTED) else row.verdict
        return f"Before, on {row.time[:10]} ({row.versions}): {found}."
    return (
        f"Before, on {row.time[:10]} ({row.versions}): {interval(row.ratio, row.low, row.high)} {row.verdict}, "
        f"baseline {row.baseline_ms:.3g} ms a step."
    )
