"""What the ladder panel shows of the workbench's trials, by speed and by quality, and of its searches, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.tuning import Tuning
from accel.plans.plan import Plan
from accel.units import milliseconds
from accel.views.tuning import left_out_lines, part_lines
from accel_widgets.ladder_row import axis_shown, ladder_row
from accel_widgets.quality_rows import curves_shown, quality_row

if TYPE_CHECKING:
    from accel.measuring.comparison import Comparison
    from accel.measuring.ladder import Ladder
    from accel.workers.any_trial import AnyTrial
    from accel.workers.tune_trial import TuneTrial

MOST_ROWS = 12  # of a search: more are in its data frame


class ShownTrials:
    """Trials as the ladder panel draws them; one that is over is made once, not at each of twenty drawings a second.

    >>> ShownTrials().newest_first(workbench.trials, kept="channels_last")
    """

    def __init__(self) -> None:
        self._made: WeakKeyDictionary[AnyTrial, tuple[object, dict[str, Any]]] = WeakKeyDictionary()

    def newest_first(self, trials: Sequence[AnyTrial], *, kept: str, first: int = 0) -> list[dict[str, Any]]:
        """`kept` is the plan that is kept in the notebook; those before the `first` are of an earlier cell."""
        numbered = [(number, trial, number <= first) for number, trial in enumerate(trials, start=1)]
        return [self._shown(*each, kept=kept) for each in reversed(numbered)]

    def _shown(self, number: int, trial: AnyTrial, is_earlier: bool, *, kept: str) -> dict[str, Any]:
        is_over, about = trial.is_over, (kept, is_earlier)
        known_about, known = self._made.get(trial, (None, {}))
        if known_about == about:
            return known
        made = trial_shown(trial, number, kept=kept)
        if is_earlier:
            rows = [row | {"can_keep": False} for row in made["rows"]]
            made |= {"facts": ["of another cell or model", *made["facts"]], "rows": rows}
        if is_over:
            self._made[trial] = about, made
        return made


def trial_shown(trial: AnyTrial, number: int, *, kept: str) -> dict[str, Any]:
    """One trial: its state, its rows, and on what it was measured."""
    result, trial_id, title = trial.result, f"trial-{number}", f"Trial {number}"
    if isinstance(result, TimeToQuality):
        shown = _by_quality(result, trial_id, kept=kept)
    elif isinstance(result, Tuning):
        shown, title = _of_a_search(result, trial, trial_id, kept=kept), f"Tuning {number}"
    else:
        shown = _by_speed(result, trial_id, kept=kept, is_running=not trial.is_over)
    state = trial.state if trial.is_over or trial.state != "stopped" else "stopping…"
    summary = result.summary if trial.is_over else ""
    began = datetime.fromisoformat(trial.began)
    return {
        "id": trial_id,
        "title": title,
        "time": f"{began:%H:%M}",
        "date": f"{began:%Y-%m-%d %H:%M:%S}",
        "state": state,
        "is_running": not trial.is_over,
        "summary": summary,
        "axis": axis_shown(shown["rows"]),
        **shown,
    }


def _by_speed(ladder: Ladder, trial_id: str, *, kept: str, is_running: bool) -> dict[str, Any]:
    """Rows best first."""
    return {
        "facts": _baseline(ladder),
        "notes": _last_lines(ladder, is_running=is_running),
        "rows": [ladder_row(row, row_id=f"{trial_id}: {row.plan}", kept=kept) for row in ladder.rows],
        "curves": None,
    }


def _of_a_search(tuning: Tuning, trial: TuneTrial, trial_id: str, *, kept: str) -> dict[str, Any]:
    """While it runs how far it is; then the answer, with the plans measured anew before those of the search."""
    confirmed = sorted(tuning.confirmed, key=lambda row: _place(row, tuning))
    rows = [("confirmed", row) for row in confirmed]
    rows += [("searched", row) for row in tuning.rows[len(confirmed) :]]
    more = [f"{MOST_ROWS} of {len(rows)} plans are shown, the fastest."] if len(rows) > MOST_ROWS else []
    last_lines = _last_lines(tuning, is_running=not tuning.is_over)
    return {
        "facts": [tuning.answer.removesuffix("."), *_baseline(tuning)]
        if tuning.is_over
        else [_how_far(trial)],
        "notes": [*more, *_parts(tuning), *_left_out(tuning), *_how_compared(tuning), *last_lines],
        "rows": [
            # An id for each stage: when its second measurement begins, a row moves to the top.
            ladder_row(
                row, row_id=f"{trial_id}: {stage}: {row.plan}", kept=kept, may_keep=_may_be_kept(row, tuning)
            )
            for stage, row in rows[:MOST_ROWS]
        ],
        "curves": None,
    }


def _how_far(trial: TuneTrial) -> str:
    time_left = f"{max(trial.budget.left_s, 0):.0f} s of {trial.budget.seconds:g} s left"
    return "; ".join(filter(None, [trial.phases.now, time_left]))


def _place(row: Comparison, tuning: Tuning) -> tuple[bool, float]:
    """The answer first, then the fastest."""
    is_best = tuning.best is not None and row.plan == tuning.best.plan
    return not is_best, -row.shown.ratio if row.shown else 0.0


def _may_be_kept(row: Comparison, tuning: Tuning) -> bool:
    """What is to be recommended, and trains in this one process."""
    return tuning.may_be_kept(row) and not Plan.parse(row.plan).how_to_run


def _parts(tuning: Tuning) -> list[str]:
    """What each part adds, where there are several; before it what to do with a plan that cannot be kept here."""
    next_line = [f"Next: {tuning.how_to_run}"] if tuning.how_to_run else []
    return [*next_line, *(part_lines(tuning) if len(tuning.parts) > 1 else [])]


def _left_out(tuning: Tuning) -> list[str]:
    """What measuring showed to be none to recommend."""
    return [f"Left out: {line}" for line in left_out_lines(tuning)]


def _how_compared(tuning: Tuning) -> list[str]:
    """By what quality a plan that changes training was compared."""
    return [tuning.quality.how] if tuning.quality is not None and tuning.quality.how else []


def _baseline(result: Ladder | Tuning) -> list[str]:
    has_baseline = result.baseline_ms == result.baseline_ms
    return [f"baseline {milliseconds(result.baseline_ms)} a step"] if has_baseline else []


def _last_lines(result: Ladder | Tuning, *, is_running: bool) -> list[str]:
    """How long it took, what a reader must know, and where it was measured."""
    took = str(result.took) if result.took is not None and not is_running else ""
    lines = (took, *result.notes, result.unchanged_line, result.allocator_line, result.machine_line)
    return [line for line in lines if line]


def _by_quality(result: TimeToQuality, trial_id: str, *, kept: str) -> dict[str, Any]:
    """The baseline first, then the plans as they were named."""
    return {
        "facts": [result.headline],
        "notes": list(result.fine_print),
        "rows": [
            quality_row(row, result, row_id=f"{trial_id}: {row.plan}", kept=kept) for row in result.rows
        ],
        "curves": curves_shown(result),
    }
