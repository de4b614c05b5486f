"""A sweep in a sentence: no winner where none can be told, and no speed without what it cost in quality."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accel.measuring.sweep_row import SweepRow

if TYPE_CHECKING:
    from accel.measuring.sweep import Sweep

WORSE_ACCURACY, WORSE_LOSS = 0.1, 1.5  # so much less, so many times: far beyond what a seed moves


def sweep_answer(sweep: Sweep) -> str:
    """What is fastest, against the best single process, and where the model learnt much less.

    >>> sweep_answer(sweep)
    'Fastest: 8 processes × 2 threads over gloo, 37 s: 1.97 times as fast as the best single process (...).'
    """
    fastest, single = sweep.fastest, sweep.best_single
    if fastest is None:
        return (
            "No row can be compared: no samples were counted." if sweep.measured else "Nothing was measured."
        )
    return " ".join([f"{_head(sweep, fastest)}{_against(sweep, fastest, single)}.", *_warnings(sweep)])


def is_much_worse(sweep: Sweep, row: SweepRow) -> bool:
    """Whether its model is much worse than that of the first row; of a metric of the user's only that it is no number."""
    first = sweep.reference.quality if sweep.reference is not None else None
    if first is None or row.quality is None or not math.isfinite(first):
        return False
    if not math.isfinite(row.quality):
        return True
    if sweep.metric == "accuracy":
        return row.quality < first - WORSE_ACCURACY
    return sweep.metric == "loss" and row.quality - first > (WORSE_LOSS - 1) * abs(first)


def _head(sweep: Sweep, fastest: SweepRow) -> str:
    tied = sweep.tied
    if len(tied) == 1:
        return f"Fastest: {fastest.configuration.words}, {sweep.shown_cost(sweep.cost(fastest))}"
    shown = [f"{row.configuration.words} ({sweep.shown_cost(sweep.cost(row))})" for row in tied]
    return f"Fastest: {', '.join(shown[:-1])} and {shown[-1]}, between which no difference can be told"


def _against(sweep: Sweep, fastest: SweepRow, single: SweepRow | None) -> str:
    if single is None:
        return "; one process alone was not measured"
    if fastest is single:
        more = any(row.configuration.processes > 1 for row in sweep.measured)
        return "; more processes do no better" if more else ""
    told = ""
    if single not in sweep.tied and (ratio := sweep.compared(fastest, single)) is not None:
        spread = f" ({ratio.low:.2f}–{ratio.high:.2f})" if ratio.seeds > 1 else ""
        told = (
            f": {ratio.mean:.2f} times{spread} as fast as the best single process ({single.configuration.words}, "
            f"{sweep.shown_cost(sweep.cost(single))})"
        )
    if fastest.quality is not None and single.quality is not None:
        told += f"; {sweep.metric} {fastest.quality:.4g} against {single.quality:.4g}"
    return told


def _warnings(sweep: Sweep) -> list[str]:
    worse = [
        f"{row.configuration.label} ({row.quality:.4g})"
        for row in sweep.measured
        if is_much_worse(sweep, row)
    ]
    if not worse or sweep.reference is None:
        return []
    first = sweep.reference
    return [
        f"The model learnt much less than with {first.configuration.label} ({sweep.metric} {first.quality:.4g}) in "
        f"{', '.join(worse)}: those times buy no such model."
    ]
