"""What the trial ladder shows of one comparison: the engine's sentences, and its interval as numbers or nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accel.views.ladder import explanations

if TYPE_CHECKING:
    from accel.measuring.comparison import Comparison

RUNNING = ("measuring", "confirming")


def ladder_row(comparison: Comparison, *, row_id: str, kept: str = "") -> dict[str, Any]:
    """Give the row of one comparison, ready for JSON; `kept` is the plan that is live in the notebook.

    >>> ladder_row(comparison, row_id="trial-1-0")["sentence"]
    '1.93× [1.88, 1.99] faster'
    """
    shown = comparison.shown
    is_done = comparison.state == "done"
    is_kept = bool(kept) and comparison.plan == kept
    return {
        "id": row_id,
        "plan": comparison.plan,
        "title": comparison.title,
        "state": comparison.state,
        "progress": progress_text(comparison),
        "verdict": comparison.verdict if is_done else "",
        "sentence": comparison.sentence if shown or comparison.state not in RUNNING else "",
        "ratio": finite(shown.carried if shown else None),
        "low": finite(shown.low if shown else None),
        "high": finite(shown.high if shown else None),
        "quality": str(comparison.quality) if is_done else "",
        "following": comparison.quality.following if is_done else "unknown",
        "effect": comparison.effect,
        "proofs": [
            {"text": f"{name}: {text}", "took_effect": took} for name, took, text in comparison.proofs
        ],
        "evidence": explanations(comparison) if shown else [],
        "can_keep": is_done and not is_kept,
        "is_kept": is_kept,
    }


def progress_text(comparison: Comparison) -> str:
    """What a running comparison is doing: "measuring … 34 pairs"."""
    if comparison.state not in RUNNING:
        return ""
    shown = comparison.steady if comparison.state == "measuring" else comparison.headline
    pairs = shown.pairs if shown else comparison.details.get("rounds_now", 0)
    return f"{comparison.state} … {pairs} pairs" if pairs else f"{comparison.state} … workers are starting"


def finite(value: float | None) -> float | None:
    """JSON has no infinity and no NaN: a browser would reject the whole message."""
    return value if value is not None and math.isfinite(value) else None
