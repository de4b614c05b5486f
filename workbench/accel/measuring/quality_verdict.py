"""Which of two plans gets there sooner, or further in the same time, in words that so few seeds can carry.

A seed that missed the target within its seconds is not left out: it says that the true time is longer than those. And
"no difference" is claimed only of an interval that lies within a tolerance as a whole; any other one is undecided.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, NamedTuple

from accel.measuring.interval import OverSeeds
from accel.measuring.quality_target import QualityTarget
from accel.measuring.training_curve import ENDINGS, QualityRow, TrainingCurve

QualityVerdict = Literal[
    "sooner", "later", "better", "worse", "no difference", "not reached", "diverged", "undecided"
]  # fmt: skip
TIME_TOLERANCE = 0.10  # of the ratio of seconds: seeds differ by more than the 3 % of an ordinary trial
QUALITY_TOLERANCE = 0.01  # of the baseline's metric
_UNCERTAIN_PART = 0.25  # of the stretch between two evaluations: learning curves are no straight lines
_MORE_SEEDS = "too wide to tell; more --seeds narrow it"


@dataclass(frozen=True)
class QualityAnswer:
    """The verdict on one plan, the sentence for it, and what it rests on.

    `ratio` is seconds of the baseline over seconds of the plan (above 1: sooner), where both met the target in all that is
    compared; `difference` that of the metric.
    """

    verdict: QualityVerdict
    sentence: str
    ratio: OverSeeds | None = None
    difference: OverSeeds | None = None


class _SeedRatio(NamedTuple):
    """The logarithm of one seed's ratio; a `bound` where only one of the two met the target."""

    value: float
    uncertain: float = 0.0
    bound: Literal["", "at least", "at most"] = ""


def sooner_or_later(row: QualityRow, baseline: QualityRow, target: QualityTarget) -> QualityAnswer:
    """Compare seconds of training to the target, seed by seed."""
    pairs = _pairs(row, baseline)
    if answer := _diverged(pairs):
        return answer
    mine_met = sum(mine.reached(target) is not None for mine, _ in pairs)
    theirs_met = sum(theirs.reached(target) is not None for _, theirs in pairs)
    if not mine_met:
        return QualityAnswer("not reached" if theirs_met else "undecided", missed(row, target))
    if any(point.seconds == 0 for pair in pairs for curve in pair if (point := curve.reached(target))):
        return QualityAnswer("undecided", "the target was met before the first step")
    found = [seed for pair in pairs if (seed := _seed_ratio(*pair, target)) is not None]
    often = f"reached in {mine_met} of {len(pairs)} seeds, the baseline in {theirs_met}"
    if not theirs_met:
        often += f": {missed(baseline, target)}"
    bounds = {seed.bound for seed in found} - {""}
    if len(found) < len(pairs) or len(bounds) > 1:
        return QualityAnswer("undecided", often)
    logarithms = OverSeeds.of([seed.value for seed in found])
    ratio = logarithms.widened(fmean(seed.uncertain for seed in found)).exponentiated()
    if bounds:
        return _of_bounds(ratio, is_sooner=bounds == {"at least"}, often=often)
    verdict = _time_verdict(ratio)
    return QualityAnswer(verdict, _time_sentence(ratio, verdict), ratio=ratio)


def _time_verdict(ratio: OverSeeds) -> QualityVerdict:
    """What the interval of the ratio says; "no difference" only where all of it lies within the tolerance."""
    if not ratio.is_interval:
        return "undecided"
    if ratio.low > 1:
        return "sooner"
    if ratio.high < 1:
        return "later"
    is_same = ratio.low > 1 - TIME_TOLERANCE and ratio.high < 1 + TIME_TOLERANCE
    return "no difference" if is_same else "undecided"


def _seed_ratio(mine: TrainingCurve, theirs: TrainingCurve, target: QualityTarget) -> _SeedRatio | None:
    """How much sooner than the baseline, from one seed; None where neither met the target."""
    m, t = mine.crossed(target), theirs.crossed(target)
    if m is not None and t is not None:
        uncertain = _UNCERTAIN_PART * (m.apart_s / m.seconds + t.apart_s / t.seconds)
        return _SeedRatio(math.log(t.seconds / m.seconds), uncertain)
    at_m, at_t = mine.reached(target), theirs.reached(target)
    if at_m is not None and theirs.trained_s:
        return _SeedRatio(math.log(theirs.trained_s / at_m.seconds), bound="at least")
    if at_t is not None and mine.trained_s:
        return _SeedRatio(math.log(at_t.seconds / mine.trained_s), bound="at most")
    return None


def _of_bounds(ratio: OverSeeds, *, is_sooner: bool, often: str) -> QualityAnswer:
    """The answer where some seeds tell only that the ratio is at least (at most) so much."""
    if ratio.is_interval and is_sooner and round(ratio.low, 2) > 1:  # as it is shown: 1.00× claims nothing
        return QualityAnswer("sooner", f"at least {ratio.low:.2f}× sooner over {ratio.seeds} seeds: {often}")
    if ratio.is_interval and not is_sooner and round(1 / ratio.high, 2) > 1:
        return QualityAnswer(
            "later",
            f"later: takes at least {1 / ratio.high:.2f}× as long over {ratio.seeds} seeds: {often}",
        )
    few = "" if ratio.is_interval else f" {_spread(ratio, '.2f')}"
    return QualityAnswer("undecided", often + few)


def better_or_worse(
    row: QualityRow, baseline: QualityRow, *, metric: str, is_higher_better: bool
) -> QualityAnswer:
    """Compare the metric after equal seconds of training, seed by seed."""
    pairs = _pairs(row, baseline)
    if answer := _diverged(pairs):
        return answer
    both = [(m.last, t.last) for m, t in pairs if m.last is not None and t.last is not None]
    if not both:
        return QualityAnswer(
            "undecided", f"no {metric} to compare: {_endings(row)}; the baseline: {_endings(baseline)}"
        )
    difference = OverSeeds.of([mine - theirs for mine, theirs in both])
    is_equal = all(curve.ending == "budget spent" for each in (row, baseline) for curve in each.curves)
    room = QUALITY_TOLERANCE * abs(fmean(theirs for _, theirs in both))
    verdict = (
        _metric_verdict(difference, room, is_higher_better=is_higher_better) if is_equal else "undecided"
    )
    size = f"{metric} {difference.mean:+.3g}"
    says = {"better": "better: ", "worse": "worse: ", "no difference": "no difference found: "}.get(
        verdict, ""
    )
    when = "after equal seconds"
    if not is_equal:  # fewer seconds were to be had: a difference in quality is no verdict on the plan
        mine, theirs = row.seconds(None) or 0.0, baseline.seconds(None) or 0.0
        when = f"after {mine:.3g} s ({_endings(row)}), the baseline's {theirs:.3g} s ({_endings(baseline)})"
    elif verdict == "undecided" and difference.is_interval:
        when += f": {_MORE_SEEDS}"
    return QualityAnswer(verdict, f"{says}{size} {_spread(difference, '+.3g')} {when}", difference=difference)


def _metric_verdict(difference: OverSeeds, room: float, *, is_higher_better: bool) -> QualityVerdict:
    """What the interval of the difference says; "no difference" only where all of it lies within the room."""
    if not difference.is_interval:
        return "undecided"
    if difference.low > 0 or difference.high < 0:
        return "better" if (difference.low > 0) == is_higher_better else "worse"
    return "no difference" if -room <= difference.low and difference.high <= room else "undecided"


def missed(row: QualityRow, target: QualityTarget) -> str:
    """How far a plan came that did not reach the target, and what it was given."""
    if not row.curves:
        return row.error or "has not been trained yet"
    best = [b for curve in row.curves if (b := curve.best(is_higher_better=target.is_at_least)) is not None]
    closest = (max if target.is_at_least else min)(best, default=None)
    seconds = max(curve.seconds for curve in row.curves)
    known = "no value" if closest is None else f"best {closest:.4g}"
    return f"not reached within {seconds:.3g} s of training ({known}): {_endings(row)}"


def _diverged(pairs: list[tuple[TrainingCurve, TrainingCurve]]) -> QualityAnswer | None:
    """A plan that diverges where the baseline does not has its verdict, whatever its other seeds say."""
    mine = sum(curve.ending == "diverged" for curve, _ in pairs)
    if not mine or any(curve.ending == "diverged" for _, curve in pairs):
        return None
    often = f"{mine} of {len(pairs)} seeds" if len(pairs) > 1 else "the one seed"
    return QualityAnswer("diverged", f"diverged in {often}: {ENDINGS['diverged']}; the baseline in none")


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
    return f"{ratio.mean:.2f}× as soon {spread}" + (f": {_MORE_SEEDS}" if ratio.is_interval else "")


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
