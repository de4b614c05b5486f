"""What the trial ladder shows of a trial by quality: its rows, and the curves of quality over seconds of training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel.views.time_to_quality import speed_row
from accel_widgets.ladder_row import row_drawn

if TYPE_CHECKING:
    from accel.measuring.time_to_quality import TimeToQuality
    from accel.measuring.training_curve import QualityRow

TRAINING = ("waiting", "training")


def quality_row(row: QualityRow, result: TimeToQuality, *, row_id: str, kept: str = "") -> dict[str, Any]:
    """The row of one plan, ready for JSON and drawn like one of a trial by speed; the baseline has no bar and no Keep.

    >>> quality_row(result["batch_size"], result, row_id="trial-1-1")["sentence"]
    '1.93× sooner [1.88, 1.99] over 3 seeds · accuracy 0.953 after 3.2 s'
    """
    drawn, is_done = speed_row(result, row), row.state == "done"
    is_kept = bool(kept) and row.plan == kept
    return {
        **row_drawn(drawn, sentence="" if row.state in TRAINING else drawn.answer),
        "id": row_id,
        "plan": row.plan,
        "state": {"training": "measuring"}.get(row.state, row.state),
        "progress": _progress(row),
        "can_keep": is_done and not is_kept and row is not result.baseline,
        "is_kept": is_kept,
    }


def _progress(row: QualityRow) -> str:
    """What a running training is doing: "training … seed 1, 320 steps"."""
    if row.state not in TRAINING:
        return ""
    if not row.curves:
        return "waiting …"
    return f"training … seed {row.curves[-1].seed}, {row.curves[-1].steps:,} steps"


def curves_shown(result: TimeToQuality) -> dict[str, Any]:
    """A line for each plan and seed, as pairs of seconds and quality, with the target."""
    lines = [
        {
            "plan": row.plan,
            "colour": number,
            "points": [[point.seconds, point.value] for point in curve.points if point.value is not None],
        }
        for number, row in enumerate(result.rows)
        for curve in row.curves
    ]
    return {
        "lines": [line for line in lines if line["points"]],
        "metric": result.metric,
        "target": result.target.value if result.target else None,
    }
