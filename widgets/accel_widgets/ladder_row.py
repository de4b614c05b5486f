"""A row of the trial ladder as the page gets it: what the engine's drawing has, and what can be done with its plan."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accel.measuring.summary import UNDER_WAY
from accel.views.ladder import speed_row
from accel.views.speed_rows import SpeedRow, axis_end, ticks

if TYPE_CHECKING:
    from accel.measuring.comparison import Comparison


def ladder_row(
    comparison: Comparison, *, row_id: str, kept: str = "", may_keep: bool = True
) -> dict[str, Any]:
    """Give the row of one comparison, ready for JSON; `kept` is the plan that is kept in the notebook.

    >>> ladder_row(comparison, row_id="trial-1-0")["sentence"]
    '1.8 to 2.0× faster · ✓ loss follows'
    """
    drawn, is_measured = speed_row(comparison), comparison.state == "done" and comparison.shown is not None
    says_more = comparison.shown is not None or comparison.state not in UNDER_WAY[1:]  # than its progress
    is_kept = bool(kept) and comparison.plan == kept
    return {
        **row_drawn(drawn, sentence=drawn.answer if says_more else ""),
        "id": row_id,
        "plan": comparison.plan,
        "state": comparison.state,
        "progress": progress_text(comparison),
        "can_keep": is_measured and may_keep and not is_kept,
        "is_kept": is_kept,
    }


def row_drawn(row: SpeedRow, *, sentence: str) -> dict[str, Any]:
    """What the page draws of a row."""
    ratio, low, high = row.span or (math.nan, math.nan, math.nan)
    return {
        "title": row.title,
        "mark": row.mark,
        "verdict": row.verdict,
        "sentence": sentence,
        "ratio": finite(ratio),
        "low": finite(low),
        "high": finite(high),
        "evidence": list(row.found),
    }


def axis_shown(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The axis of rows: its right end, and its ticks; none where no row has a bar.

    >>> axis_shown([ladder_row(comparison, row_id="trial-1-0")])
    {'end': 2.1094, 'ticks': [{'at': 0.0, 'text': '0×'}, ...]}
    """
    spans = [(row["ratio"], row["high"] or math.nan) for row in rows if row["ratio"] is not None]
    end = axis_end(spans)
    return {"end": end, "ticks": [{"at": at, "text": f"{at:g}×"} for at in ticks(end)] if spans else []}


def progress_text(comparison: Comparison) -> str:
    """What a running comparison is doing: "measuring … 34 pairs"."""
    if comparison.state not in UNDER_WAY[1:]:
        return ""
    shown = comparison.steady if comparison.state == "measuring" else comparison.headline
    pairs = shown.pairs if shown else comparison.details.get("rounds_now", 0)
    return f"{comparison.state} … {pairs} pairs" if pairs else f"{comparison.state} … workers are starting"


def finite(value: float) -> float | None:
    """JSON has no infinity and no NaN: a browser would reject the whole message."""
    return value if math.isfinite(value) else None
