"""Which of two plans gets there sooner, or further in the same time, in words that so few seeds can carry."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from accel.measuring.quality_row import QualityRow
from accel.measuring.quality_target import QualityTarget
from accel.measuring.seed_statistics import OverSeeds
from accel.measuring.training_curve import ENDINGS, TrainingCurve

QualityVerdict = Literal["sooner", "later", "better", "worse", "no difference", "not reached", "undecided"]


@dataclass(frozen=True)
class QualityAnswer:
    """The verdict on one plan, the sentence for it, and what it rests on.

    `ratio` is seconds of the baseline over seconds of the plan (above 1: sooner); `difference` that of the metric.
    """

    verdict: QualityVerdict
    sentence: str
    ratio: OverSeeds | None = None
    difference: OverSeeds | None = None


def sooner_or_later(row: QualityRow, baseline: QualityRow, target: QualityTarget) -> QualityAnswer:
    """Compare seconds of training to the target, seed by seed."""
    pairs = _pairs(row, baseline)
    met = [(mine.reached(target), theirs.reached(target)) for mine, theirs in pairs]
    count, mine_met, both = (
        len(pairs),
        sum(m is not None for m, _ in met),
        [(m, t) for m, t in met if m is not None and t is not None],
    )
    if not mine_met:
        return QualityAnswer("not reached", missed(row, target))
    often = "" if mine_met == count else f"; reached in only {mine_met} of {count} seeds"
    if not both:
        seconds = row.seconds(target)
        return QualityAnswer(
            "undecided", f"reached after {seconds:.3g} s, the baseline {missed(baseline, target)}{often}"
        )
    if any(m.seconds == 0 or t.seconds == 0 for m, t in both):
        return QualityAnswer("undecided", "the target was met before the first step")
    ratio = OverSeeds.of([math.log(t.seconds / m.seconds) for m, t in both]).exponentiated()
    their_misses = count - sum(t is not None for _, t in met)
    often += f"; the baseline missed it in {their_misses} of {count} seeds" if their_misses else ""
    verdict: QualityVerdict = "undecided"
    if ratio.is_interval and not often:
        verdict = "sooner" if ratio.low > 1 else "later" if ratio.high < 1 else "no difference"
    return QualityAnswer(verdict, _time_sentence(ratio, verdict) + often, ratio=ratio)


def better_or_worse(
    row: QualityRow, baseline: QualityRow, *, metric: str, is_higher_better: bool
) -> QualityAnswer:
    """Compare the metric after equal seconds of training, seed by seed."""
    found = [
        mine.last - theirs.last
        for mine, theirs in _pairs(row, baseline)
        if mine.last is not None and theirs.last is not None
    ]
    if not found:
        return QualityAnswer("undecided", f"no {metric} to compare: {_endings(row)}")
    difference = OverSeeds.of(found)
    is_equal = all(curve.ending == "budget spent" for each in (row, baseline) for curve in each.curves)
    verdict: QualityVerdict = "undecided"
    if difference.is_interval and is_equal:
        is_up, is_down = difference.low > 0, difference.high < 0
        better, worse = (is_up, is_down) if is_higher_better else (is_down, is_up)
        verdict = "better" if better else "worse" if worse else "no difference"
    size = f"{metric} {difference.mean:+.3g}"
    says = {"better": "better: ", "worse": "worse: ", "no difference": "no difference found: "}.get(
        verdict, ""
    )
    when = "after equal seconds"
    if not is_equal:  # fewer seconds were to be had: a difference in quality is no verdict on the plan
        mine, theirs = row.seconds(None) or 0.0, baseline.seconds(None) or 0.0
        when = f"after {mine:.3g} s, the baseline's {theirs:.3g} s: {_endings(row)}"
    return QualityAnswer(verdict, f"{says}{size} {_spread(difference, '+.3g')} {when}", difference=difference)


def missed(row: QualityRow, target: QualityTarget) -> str:
    """How far a plan came that did not reach the target, and what it was given."""
    if not row.curves:
        return row.error or "has not been trained yet"
    best = [b for curve in row.curves if (b := curve.best(is_higher_better=target.is_at_least)) is not None]
    closest = (max if target.is_at_least else min)(best, default=None)
    seconds = max(curve.seconds for curve in row.curves)
    known = "no value" if closest is None else f"best {closest:.4g}"
    return f"not reached within {seconds:.3g} s of training ({known}): {_endings(row)}"


def _endings(row: QualityRow) -> str:
    missing = dict.fromkeys(ENDINGS[curve.ending] for curve in row.curves if curve.ending != "reached")
    return ", ".join(missing) or row.error or "nothing was trained"


def _time_sentence(ratio: OverSeeds, verdict: QualityVerdict) -> str:
    spread = _spread(ratio, ".2f")
    if verdict == "sooner":
        return f"{ratio.mean:.2f}× sooner {spread}"
    if verdict == "later":
        return f"later: takes {1 / ratio.mean:.2f}× as long {_spread(_inverse(ratio), '.2f')}"
    if verdict == "no difference":
        return f"no difference found: {ratio.mean:.2f}× {spread}"
    return f"{ratio.mean:.2f}× as soon {spread}"


def _inverse(ratio: OverSeeds) -> OverSeeds:
    return OverSeeds(1 / ratio.mean, 1 / ratio.high, 1 / ratio.low, ratio.seeds)


def _spread(over: OverSeeds, form: str) -> str:
    if over.is_interval:
        return f"[{over.low:{form}}, {over.high:{form}}] over {over.seeds} seeds"
    if over.seeds == 2:
        return f"({over.low:{form}} and {over.high:{form}} in two seeds, too few for an interval)"
    return "(one seed, which proves little)"


def _pairs(row: QualityRow, baseline: QualityRow) -> list[tuple[TrainingCurve, TrainingCurve]]:
    theirs = {curve.seed: curve for curve in baseline.curves}
    return [(curve, theirs[curve.seed]) for curve in row.curves if curve.seed in theirs]
