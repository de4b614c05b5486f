"""How long a step of one cell took, day by day and version by version, on one machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from accel.history.records import AS_THE_NOTEBOOK_RUNS, TrialRecord
from accel.units import milliseconds

ALIKE = 0.1  # times of other days differ by so much without a cause: other programs, another clock rate


@dataclass(frozen=True)
class CellThen:
    """The baseline of a cell on one day with these versions: the median over that day's trials."""

    day: str
    versions: str
    step_ms: float


def cell_over_time(rows: Sequence[TrialRecord], *, workload: str, machine: str) -> tuple[CellThen, ...]:
    """Of rows that are oldest first, those of this cell on this machine as the notebook runs, a figure for each day and version.

    >>> cell_over_time(store.trials(), workload="a1b2", machine="AMD EPYC, 2 cores")
    (CellThen(day='2026-11-19', versions='python 3.11.7, torch 2.14.0', step_ms=31.2), …)
    """
    times: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        is_same = (
            row.workload == workload and row.machine == machine and row.where_measured == AS_THE_NOTEBOOK_RUNS
        )
        if is_same and not row.live and not row.asked and not math.isnan(row.baseline_ms):
            times.setdefault((row.time[:10], row.versions), []).append(row.baseline_ms)
    return tuple(CellThen(day, versions, median(each)) for (day, versions), each in times.items())


def in_a_sentence(cell: Sequence[CellThen]) -> str:
    """The last figure against the one before it; empty where there is only one.

    >>> in_a_sentence([CellThen("2026-11-19", "torch 2.14.0", 31.0), CellThen("2026-11-26", "torch 2.14.1", 24.0)])
    'This cell: 31 ms a step on 2026-11-19 (torch 2.14.0), 24 ms on 2026-11-26 (torch 2.14.1), 1.3 times as fast.'
    """
    if len(cell) < 2:
        return ""
    then, now = cell[-2:]
    ratio = then.step_ms / now.step_ms
    if abs(math.log(ratio)) < ALIKE:
        found = "about the same"
    else:
        found = f"{ratio:.2g} times as fast" if ratio > 1 else f"{1 / ratio:.2g} times as long"
    return (
        f"This cell: {milliseconds(then.step_ms)} a step on {then.day} ({then.versions}), "
        f"{milliseconds(now.step_ms)} on {now.day} ({now.versions}), {found}."
    )
