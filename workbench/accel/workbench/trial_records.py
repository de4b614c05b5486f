"""What the history keeps of a trial that is over: one record a plan, of a trial by speed or by quality."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from accel.history import TrialRecord
from accel.history.records import AS_THE_NOTEBOOK_RUNS, STEADY
from accel.measuring.time_to_quality import TimeToQuality
from accel.plans.plan import Plan

if TYPE_CHECKING:
    from accel.measuring.comparison import Comparison
    from accel.measuring.ladder import Ladder
    from accel.measuring.training_curve import QualityRow


def records_of(result: Ladder | TimeToQuality, about: dict[str, Any]) -> list[TrialRecord]:
    """A record for each plan that was measured; `about` says of what workload, on what machine, and when.

    >>> records_of(trial.result, about)[0].plan
    'channels_last'
    """
    if isinstance(result, TimeToQuality):
        rows = [row for row in result.rows if row is not result.baseline and row.state != "not applicable"]
        return [_by_quality(row, result, about) for row in rows]
    return [_by_speed(row, about) for row in result.rows if row.state != "not applicable"]


def _by_speed(row: Comparison, about: dict[str, Any]) -> TrialRecord:
    shown = row.shown
    return TrialRecord(
        plan=row.plan,
        verdict=row.state if row.state == "failed" else row.verdict,
        ratio=shown.ratio if shown else math.nan,
        low=shown.low if shown else math.nan,
        high=shown.high if shown else math.nan,
        where_measured=AS_THE_NOTEBOOK_RUNS if row.headline else STEADY,
        quality=row.quality.following,
        baseline_ms=row.baseline_ms,
        break_even_steps=_known(row.break_even_steps) if _compiles(row.plan) else math.nan,
        **about,
    )


def _by_quality(row: QualityRow, result: TimeToQuality, about: dict[str, Any]) -> TrialRecord:
    answer = result.answer(row.plan)
    ratio, spread = answer.ratio, answer.ratio if answer.ratio and answer.ratio.is_interval else None
    reached = [
        f"{value:.4g}{where}"
        for value, where in ((row.quality, ""), (result.baseline.quality, " without"))
        if value is not None
    ]
    return TrialRecord(
        plan=row.plan,
        verdict=row.state if row.state == "failed" else answer.verdict,
        ratio=ratio.mean if ratio else math.nan,
        low=spread.low if spread else math.nan,
        high=spread.high if spread else math.nan,
        where_measured=AS_THE_NOTEBOOK_RUNS,
        quality=f"{result.metric} {', '.join(reached)}" if reached else "",
        baseline_ms=math.nan,
        asked=str(result.target) if result.target else f"after {result.train_s:.3g} s of training",
        seconds=_known(row.seconds(result.target)),
        baseline_seconds=_known(result.baseline.seconds(result.target)),
        seeds=float(len(row.curves)),
        **about,
    )


def _compiles(plan: str) -> bool:
    """Whether its first steps cost what later ones earn back; of other plans they differ by chance."""
    return Plan.parse(plan).compiles


def _known(value: float | None) -> float:
    return math.nan if value is None else float(value)
