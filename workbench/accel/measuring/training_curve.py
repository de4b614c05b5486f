"""One training of one variant from one seed: quality over the seconds and steps it took."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

from accel.measuring.quality_target import QualityTarget

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
