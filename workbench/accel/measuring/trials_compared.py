"""Two trials against each other: whose speed-up is the larger, for each plan that both measured."""

from __future__ import annotations

import math
from typing import TypeAlias

from accel.measuring.ladder import Ladder
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.tuning import Tuning

Span = tuple[float, float, float]  # a speed-up and the ends of its interval
Measured: TypeAlias = Ladder | Tuning | TimeToQuality


def trials_compared(first: Measured, second: Measured, names: tuple[str, str]) -> str:
    """One line: for each plan the ratio of the two speed-ups, with the interval that their own intervals allow.

    >>> trials_compared(later, earlier, ("Trial 2", "Trial 1"))
    'Speed-ups of Trial 2 against Trial 1: autocast 1.10× [1.04, 1.17] as large. Each is over its own baseline.'

    Where the two intervals overlap, the ratio's holds 1: no difference is proven.
    """
    own, other = _spans(first), _spans(second)
    found = [_of_plan(plan, own[plan, how], other[plan, how]) for plan, how in own if (plan, how) in other]
    if not found:
        return f"{' and '.join(names)} have no plan in common that was measured in the same way."
    return f"Speed-ups of {' against '.join(names)}: {'; '.join(found)}. Each is over its own baseline."


def _of_plan(plan: str, own: Span, other: Span) -> str:
    ratio, low, high = own[0] / other[0], own[1] / other[2], own[2] / other[1]
    shown = f"{ratio:.2f}× [{low:.2f}, {high:.2f}]"
    return f"{plan} {shown}, no difference is proven" if low <= 1 <= high else f"{plan} {shown} as large"


def _spans(result: Measured) -> dict[tuple[str, object], Span]:
    """Speed-ups by plan and by how they were measured: only those measured alike are comparable."""
    spans: dict[tuple[str, object], Span] = {}
    if isinstance(result, TimeToQuality):
        for quality_row in result.rows[1:]:
            ratio = result.answer(quality_row.plan).ratio
            if ratio is not None and ratio.is_interval:
                spans[quality_row.title, result.target] = (ratio.mean, ratio.low, ratio.high)
    else:
        for row in result.rows:
            if row.state == "done" and row.shown is not None:
                spans[row.title, row.headline is None] = (row.shown.ratio, row.shown.low, row.shown.high)
    return {key: span for key, span in spans.items() if span[1] > 0 and math.isfinite(span[2])}
