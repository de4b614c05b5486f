"""From one number a seed to a sentence that claims no more than so few seeds can."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from accel.measuring.interval import student_quantile

LEAST_SEEDS = 3  # fewer have no interval worth the name: with two it spans a factor of thousands


@dataclass(frozen=True)
class OverSeeds:
    """The mean over seeds with its 95 % interval; with fewer than three seeds `low` and `high` are only the range."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def is_interval(self) -> bool:
        """Whether `low` and `high` are a confidence interval rather than the range of what was seen."""
        return self.seeds >= LEAST_SEEDS

    @classmethod
    def of(cls, values: Sequence[float]) -> OverSeeds:
        """Student's t-interval over seeds.

        >>> OverSeeds.of([1.0, 2.0])
        OverSeeds(mean=1.5, low=1.0, high=2.0, seeds=2)
        """
        centre = fmean(values)
        if len(values) < LEAST_SEEDS:
            return cls(centre, min(values), max(values), len(values))
        half = student_quantile(0.975, len(values) - 1) * stdev(values) / math.sqrt(len(values))
        return cls(centre, centre - half, centre + half, len(values))

    def widened(self, by: float) -> OverSeeds:
        """An interval with more room on both sides, for what no number of seeds averages out; a range stays as it was seen."""
        if not self.is_interval:
            return self
        return OverSeeds(self.mean, self.low - by, self.high + by, self.seeds)

    def exponentiated(self) -> OverSeeds:
        """Of logarithms of ratios: the ratio (geometric mean) and its interval."""
        return OverSeeds(math.exp(self.mean), math.exp(self.low), math.exp(self.high), self.seeds)
