"""What the ladder panel shows of the workbench's trials, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from accel.profiling.report.words import milliseconds
from accel_widgets.ladder_row import ladder_row

if TYPE_CHECKING:
    from accel.workers.trial import Trial


def trials_shown(trials: Sequence[Trial], *, kept: str) -> list[dict[str, Any]]:
    """The trials as the ladder panel draws them; `kept` is the plan that is live in the notebook."""
    return [
        trial_shown(trial, number, kept=kept) for number, trial in reversed(list(enumerate(trials, start=1)))
    ]


def trial_shown(trial: Trial, number: int, *, kept: str) -> dict[str, Any]:
    """One trial: its state, its rows best first, and on what it was measured."""
    ladder = trial.ladder
    has_baseline = ladder.baseline_ms == ladder.baseline_ms
    last_lines = (*ladder.notes, ladder.unchanged_line, ladder.allocator_line, ladder.machine_line)
    return {
        "id": f"trial-{number}",
        "title": f"Trial {number}",
        "state": trial.state,
        "is_running": not trial.is_over,
        "facts": [f"baseline {milliseconds(ladder.baseline_ms)} a step"] if has_baseline else [],
        "notes": [line for line in last_lines if line],
        "rows": [ladder_row(row, row_id=f"trial-{number}: {row.plan}", kept=kept) for row in ladder.rows],
    }
