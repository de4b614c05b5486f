"""Trainings of a plan: for each seed quality over the seconds and steps it took, and their middle in a row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple

from accel.measuring.quality_target import QualityTarget
from accel.shown_text import where_tried

Ending = Literal[
    "running", "reached", "budget spent", "out of time", "given up", "cell over", "diverged", "stopped", "failed"
]  # fmt: skip

ENDINGS: dict[Ending, str] = {
    "running": "still training",
    "reached": "reached",
    "budget spent": "trained for the seconds given",
    "out of time": "the trial's time was up",
    "given up": "given up after several times the time of the fastest",
    "cell over": "one run of the cell, which builds its model itself, was over",
    "diverged": "the metric was no number any more",
    "stopped": "stopped",
    "failed": "failed",
}


class QualityPoint(NamedTuple):
    """The metric after so many seconds and steps of training; None where it was not a number."""

    seconds: float
    steps: int
    value: float | None


class Crossing(NamedTuple):
    """Where a training met its target: read in proportion between two evaluations that lie `apart_s` of training apart."""

    seconds: float
    steps: float
    apart_s: float


@dataclass(frozen=True)
class TrainingCurve:
    """What was seen of one training. Seconds are those of its steps alone: evaluating is not in them, compiling is.

    >>> curve.crossed(QualityTarget.parse("accuracy>=0.95")).seconds
    12.3
    """

    seed: int
    points: tuple[QualityPoint, ...]
    seconds: float
    steps: int
    samples: int | None = None
    first_step_s: float = 0.0
    ending: Ending = "running"

    def reached(self, target: QualityTarget) -> QualityPoint | None:
        """The first evaluation at which the target was met."""
        return next((point for point in self.points if target.is_met(point.value)), None)

    def crossed(self, target: QualityTarget) -> Crossing | None:
        """Where the target was met, in proportion between the last evaluation that missed it and the first that met it.

        All steps of a stretch count as equally long, but for the very first of the training, which may compile.
        """
        point = self.reached(target)
        if point is None:
            return None
        before = (QualityPoint(0.0, 0, None), *self.points)[self.points.index(point)]
        begun_s = min(max(before.seconds, self.first_step_s), point.seconds)
        share = 1.0
        if before.value is not None and point.value is not None:
            share = (target.value - before.value) / (point.value - before.value)
        return Crossing(
            begun_s + share * (point.seconds - begun_s),
            before.steps + share * (point.steps - before.steps),
            point.seconds - (begun_s if before.value is not None else 0.0),
        )

    def best(self, *, is_higher_better: bool) -> float | None:
        """The best value seen."""
        values = [point.value for point in self.points if point.value is not None]
        return (max if is_higher_better else min)(values, default=None)

    @property
    def trained_s(self) -> float:
        """Seconds of training up to the last evaluation."""
        return self.points[-1].seconds if self.points else 0.0

    @property
    def last(self) -> float | None:
        """The value at the last evaluation."""
        return self.points[-1].value if self.points else None

    @property
    def samples_per_s(self) -> float | None:
        """Throughput of the steps after the first, which may have compiled."""
        if not self.samples or self.steps < 2 or self.seconds <= self.first_step_s:
            return None
        return self.samples * (self.steps - 1) / self.steps / (self.seconds - self.first_step_s)

    @property
    def seconds_between_evaluations(self) -> float:
        """How finely the curve was looked at: the longest stretch without an evaluation."""
        times = [point.seconds for point in self.points]
        return max((after - before for before, after in pairwise(times)), default=0.0)


RowState = Literal["waiting", "training", "done", "stopped", "failed", "not applicable"]


@dataclass(frozen=True)
class QualityRow:
    """One plan (or the baseline): a curve for each seed; `error` says why there is none."""

    plan: str
    effect: str
    curves: tuple[TrainingCurve, ...] = ()
    proofs: tuple[tuple[str, bool, str], ...] = ()
    state: RowState = "done"
    error: str = ""
    environment: str = ""
    """The environment that the plan ran in; empty for the notebook's own."""

    @property
    def title(self) -> str:
        """The plan, and where it ran."""
        return where_tried(self.plan, self.environment)

    def ends(self, target: QualityTarget | None) -> list[tuple[TrainingCurve, float, float]]:
        """For each seed its curve with the seconds and steps that count: until the target was met, or in all without one."""
        if target is None:
            return [(each, each.trained_s, each.points[-1].steps) for each in self.curves if each.points]
        met = [(each, each.crossed(target)) for each in self.curves]
        return [(each, at.seconds, at.steps) for each, at in met if at is not None]

    def seconds(self, target: QualityTarget | None) -> float | None:
        """Median seconds of training to the target, or in all where there is none; a seed that missed it counts as endless."""
        return self._median([seconds for _, seconds, _ in self.ends(target)])

    def steps(self, target: QualityTarget | None) -> float | None:
        """Median steps to the target, or in all where there is none; a seed that missed it counts as endless."""
        return self._median([steps for _, _, steps in self.ends(target)])

    def samples(self, target: QualityTarget | None) -> float | None:
        """Median samples trained on until then; None where nothing tells how many a step takes."""
        found = [
            curve.samples * steps / curve.steps
            for curve, _, steps in self.ends(target)
            if curve.samples and curve.steps
        ]
        return self._median(found) if found else None

    def _median(self, values: list[float]) -> float | None:
        """Over all seeds, those without a value last; None where the middle one has none."""
        middle = (
            median([*values, *[math.inf] * (len(self.curves) - len(values))]) if self.curves else math.inf
        )
        return middle if middle < math.inf else None

    @property
    def samples_per_s(self) -> float | None:
        """Median throughput of the steps after the first."""
        return _median([curve.samples_per_s for curve in self.curves if curve.samples_per_s is not None])

    @property
    def qualities(self) -> list[float]:
        """The metric at the end of each training where it is a number."""
        return [curve.last for curve in self.curves if curve.last is not None]

    @property
    def quality(self) -> float | None:
        """Median of the metric at the end of the trainings, of those where it is a number."""
        return _median(self.qualities)

    @property
    def first_step_s(self) -> float | None:
        """Median seconds of the first step: compiling and starting up."""
        return _median([curve.first_step_s for curve in self.curves if curve.steps])

    @property
    def is_noteworthy_start(self) -> bool:
        """Whether the first step is a large part of the whole."""
        whole = _median([curve.seconds for curve in self.curves])
        return bool(whole and self.first_step_s and self.first_step_s > 0.1 * whole)


def _median(values: list[float]) -> float | None:
    return median(values) if values else None
