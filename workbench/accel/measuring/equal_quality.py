"""Whether a plan that changes training is worth it: how soon it is as good as the cell as it is was after equal seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from accel.measuring.quality_target import QualityTarget
from accel.measuring.quality_verdict import QualityAnswer, sooner_or_later
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.training_curve import QualityRow

MAY_VARY = 0.01  # of the quality: ends of one training differ by as much from evaluation to evaluation


@dataclass(frozen=True)
class EqualQuality:
    """A plan that changes training, compared by time to the quality that the baseline has in the end, seed by seed.

    It is proven where it is sooner there than everything it is compared with: the baseline, and the best plan that leaves
    training as it is. `keep_quality` is the share by which that quality may be missed; all are timed to the same.

    >>> tuning.quality.is_proven, tuning.quality.sentence
    (True, 'reaches the baseline's loss 1.80× sooner [1.62, 2.01] over 3 seeds')
    """

    plan: str
    than: tuple[str, ...]
    keep_quality: float = 0.0
    result: TimeToQuality | None = None
    why_none: str = ""
    """Why it was not compared, or not to the end."""
    is_over: bool = True

    @property
    def is_proven(self) -> bool:
        """Whether it may be recommended."""
        if self.result is None or not self.is_over or self.why_none:
            return False
        return all(self.answer(other).verdict == "sooner" for other in self.than) and not self._is_worse(
            self.result
        )

    @property
    def gain(self) -> float:
        """How many times sooner than the baseline it was as good; infinite where the baseline never was."""
        ratio = self.answer(self.than[0]).ratio
        return ratio.mean if ratio is not None else math.inf

    @property
    def sentence(self) -> str:
        """What speaks for it, or why it is none to recommend."""
        if self.result is None or not self.is_over or self.why_none:
            return f"it changes training; {self.why_none or 'its quality is being compared'}"
        goal = f"the baseline's {self.result.metric}"
        if self.keep_quality:
            goal += f" {'less' if self.result.is_higher_better else 'plus'} {100 * self.keep_quality:g} %"
        if self.is_proven:
            first, *others = self.than
            more = [f", {self.answer(other).sentence} than {other}" for other in others]
            return f"reaches {goal} {self.answer(first).sentence}{''.join(more)}"
        failing = next((each for each in self.than if self.answer(each).verdict != "sooner"), None)
        if failing is None:
            return f"it changes training; after equal seconds it is {self.result.answer(self.plan).sentence}"
        than = f" than {failing}" if failing != self.result.baseline.plan else ""
        return f"it changes training, and is not proven to reach {goal} sooner{than}: {self.answer(failing).sentence}"

    @property
    def how(self) -> str:
        """By what it was compared, in one line."""
        if self.result is None:
            return ""
        seeds = len(self.result.baseline.curves)
        return f"Compared by {self.result.metric_line} {self.result.train_s:.3g} s of training for each, {seeds} seeds."

    def answer(self, other: str) -> QualityAnswer:
        """How much sooner than another plan, or the baseline, it is as good."""
        if self.result is None:
            return QualityAnswer("undecided", self.why_none)
        rows, goals = (self.result[self.plan], self.result[other]), self._goals(self.result)
        if failed := next((row for row in rows if row.state == "failed"), None):
            return QualityAnswer("undecided", f"{failed.plan} failed: {failed.error}")
        mine, theirs = (_from_goal(row, goals) for row in rows)
        target = QualityTarget(self.result.metric, self.result.is_higher_better, 0.0)
        found = sooner_or_later(mine, theirs, target)
        if found.verdict == "not reached" or (found.verdict == "undecided" and not mine.ends(target)):
            seconds = mine.seconds(None) or 0.0
            return replace(found, sentence=f"not reached within {seconds:.3g} s of training")
        if found.verdict == "undecided" and found.ratio is not None:
            few = "too few seeds" if not found.ratio.is_interval else "too wide to tell"
            ends = f"[{found.ratio.low:.2f}, {found.ratio.high:.2f}]"
            return replace(
                found,
                sentence=f"{found.ratio.mean:.2f}× as soon {ends}, {few}; a longer --budget-s tells more",
            )
        return found

    def _goals(self, result: TimeToQuality) -> dict[int, float]:
        """Of each seed the quality that counts as good enough."""
        worse = -self.keep_quality if result.is_higher_better else self.keep_quality
        ends = {curve.seed: curve.last for curve in result.baseline.curves}
        return {seed: end + worse * abs(end) for seed, end in ends.items() if end is not None}

    def _is_worse(self, result: TimeToQuality) -> bool:
        """Whether it passed that quality and lost it again, by more than may be lost: one good moment is no proof."""
        ends, mine = result.baseline.qualities, result[self.plan].qualities
        if not ends or len(mine) < len(ends):
            return True
        lost = fmean(ends) - fmean(mine) if result.is_higher_better else fmean(mine) - fmean(ends)
        return lost > max(self.keep_quality, MAY_VARY) * abs(fmean(ends))


def _from_goal(row: QualityRow, goals: Mapping[int, float]) -> QualityRow:
    """The same trainings, with values as distances from the goal of their seed."""
    curves = [
        replace(curve, points=tuple(
            point._replace(value=None if point.value is None else point.value - goals[curve.seed]) for point in curve.points
        ))
        for curve in row.curves
        if curve.seed in goals
    ]  # fmt: skip
    return replace(row, curves=tuple(curves))
