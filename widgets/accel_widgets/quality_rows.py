"""What the trial ladder shows of a trial by quality: its rows, and the curves of quality over seconds of training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel.views.time_to_quality import BARS
from accel_widgets.ladder_row import finite

if TYPE_CHECKING:
    from accel.measuring.quality_target import QualityTarget
    from accel.measuring.time_to_quality import TimeToQuality
    from accel.measuring.training_curve import QualityRow


def quality_row(row: QualityRow, result: TimeToQuality, *, row_id: str, kept: str = "") -> dict[str, Any]:
    """The row of one plan, ready for JSON and drawn like one of a trial by speed; the baseline has no bar and no Keep.

    >>> quality_row(result["batch_size"], result, row_id="trial-1-1")["sentence"]
    '1.93× sooner [1.88, 1.99] over 3 seeds'
    """
    answer = result.answer(row.plan)
    ratio = answer.ratio
    is_done, is_kept = row.state == "done", bool(kept) and row.plan == kept
    return {
        "id": row_id,
        "plan": row.plan,
        "title": row.title,
        "state": {"training": "measuring", "waiting": "waiting"}.get(row.state, row.state),
        "progress": _progress(row),
        "verdict": BARS.get(answer.verdict, answer.verdict) if is_done and row.plan != "baseline" else "",
        "sentence": answer.sentence if row.state not in ("waiting", "training") else "",
        "ratio": finite(ratio.mean if ratio else None),
        "low": finite(ratio.low if ratio and ratio.is_interval else None),
        "high": finite(ratio.high if ratio and ratio.is_interval else None),
        "quality": _reached(row, result.target),
        "following": "unknown",
        "effect": row.effect,
        "proofs": [{"text": f"{name}: {text}", "took_effect": took} for name, took, text in row.proofs],
        "evidence": result.details(row),
        "can_keep": is_done and not is_kept and row is not result.baseline,
        "is_kept": is_kept,
    }


def _progress(row: QualityRow) -> str:
    """What a running training is doing: "training … seed 1, 320 steps"."""
    if row.state not in ("waiting", "training"):
        return ""
    if not row.curves:
        return "waiting …"
    return f"training … seed {row.curves[-1].seed}, {row.curves[-1].steps:,} steps"


def _reached(row: QualityRow, target: QualityTarget | None) -> str:
    """Quality and the seconds it took, side by side: "0.953 after 3.2 s"."""
    if row.quality is None:
        return ""
    seconds = row.seconds(target)
    return f"{row.quality:.4g}" + (f" after {seconds:.3g} s" if seconds is not None else ", target not met")


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
