"""What is known of one plan in a comparison by quality: its trainings, one a seed, and their middle."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Literal

from accel.measuring.quality_target import QualityTarget
from accel.measuring.training_curve import QualityPoint, TrainingCurve

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

    def ends(self, target: QualityTarget | None) -> list[tuple[TrainingCurve, QualityPoint]]:
        """For each seed its curve and the point that counts: where the target was met, or where training ended."""
        found = []
        for curve in self.curves:
            point = curve.reached(target) if target else None
            if target is None and curve.points:
                point = curve.points[-1]
            if point is not None:
                found.append((curve, point))
        return found

    def seconds(self, target: QualityTarget | None) -> float | None:
        """Median seconds of training to the target, or in all where there is none."""
        return _median([point.seconds for _, point in self.ends(target)])

    def steps(self, target: QualityTarget | None) -> float | None:
        """Median steps to the target, or in all where there is none."""
        return _median([float(point.steps) for _, point in self.ends(target)])

    def samples(self, target: QualityTarget | None) -> float | None:
        """Median samples trained on until then; None where nothing tells how many a step takes."""
        found = [
            curve.samples * point.steps / curve.steps
            for curve, point in self.ends(target)
            if curve.samples and curve.steps
        ]
        return _median(found)

    @property
    def samples_per_s(self) -> float | None:
        """Median throughput of the steps after the first."""
        return _median([curve.samples_per_s for curve in self.curves if curve.samples_per_s is not None])

    @property
    def quality(self) -> float | None:
        """Median of the metric at the end of the trainings."""
        return _median([curve.last for curve in self.curves if curve.last is not None])

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
