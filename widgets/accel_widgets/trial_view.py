"""What the ladder panel shows of the workbench's trials, by speed and by quality, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accel.measuring.time_to_quality import TimeToQuality
from accel.units import milliseconds
from accel_widgets.ladder_row import ladder_row
from accel_widgets.quality_rows import curves_shown, quality_row

if TYPE_CHECKING:
    from accel.measuring.ladder import Ladder
    from accel.workers.quality_trial import QualityTrial
    from accel.workers.trial import Trial


def trials_shown(trials: Sequence[Trial | QualityTrial], *, kept: str) -> list[dict[str, Any]]:
    """The trials as the ladder panel draws them; `kept` is the plan that is live in the notebook."""
    return [
        trial_shown(trial, number, kept=kept) for number, trial in reversed(list(enumerate(trials, start=1)))
    ]


def trial_shown(trial: Trial | QualityTrial, number: int, *, kept: str) -> dict[str, Any]:
    """One trial: its state, its rows, and on what it was measured."""
    result = trial.result
    shown = (
        _by_quality(result, f"trial-{number}", kept=kept)
        if isinstance(result, TimeToQuality)
        else _by_speed(result, f"trial-{number}", kept=kept, is_running=not trial.is_over)
    )
    return {
        "id": f"trial-{number}", "title": f"Trial {number}", "state": trial.state, "is_running": not trial.is_over, **shown,
    }  # fmt: skip


def _by_speed(ladder: Ladder, trial_id: str, *, kept: str, is_running: bool) -> dict[str, Any]:
    """Rows best first."""
    has_baseline = ladder.baseline_ms == ladder.baseline_ms
    took = str(ladder.took) if ladder.took is not None and not is_running else ""
    last_lines = (took, *ladder.notes, ladder.unchanged_line, ladder.allocator_line, ladder.machine_line)
    return {
        "facts": [f"baseline {milliseconds(ladder.baseline_ms)} a step"] if has_baseline else [],
        "notes": [line for line in last_lines if line],
        "rows": [ladder_row(row, row_id=f"{trial_id}: {row.plan}", kept=kept) for row in ladder.rows],
        "last_column": "Loss",
        "curves": None,
    }


def _by_quality(result: TimeToQuality, trial_id: str, *, kept: str) -> dict[str, Any]:
    """The baseline first, then the plans as they were named."""
    return {
        "facts": [result.headline],
        "notes": list(result.fine_print),
        "rows": [
            quality_row(row, result, row_id=f"{trial_id}: {row.plan}", kept=kept) for row in result.rows
        ],
        "last_column": result.metric[:1].upper() + result.metric[1:],
        "curves": curves_shown(result),
    }
