"""What is known of one plan in a comparison by quality: its trainings, one a seed, and their middle."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Literal

from accel.measuring.quality_target import QualityTarget
from accel.measuring.training_curve import TrainingCurve

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
