"""From paired step times to a ratio with an interval, over steps *and* over relaunches.

Interleaving steps removes drift, but two processes that run the same code still differ for all their life: by about 1 %
under a steady allocator, by 10 % under glibc's defaults (page faults). No number of steps averages that away. So each
relaunch gives one number (the median log-ratio of its pairs), and the interval is a t-interval over relaunches whose
variance is shrunk towards what A/A runs show, but never below the data's own: with one relaunch it is that prior, with many
it is the data's. A relaunch whose pairs scatter (few of them, other work on the machine) weighs less. How processes vary is
learnt from all plans of the trial (`spread_of`).

Sources: Kalibera & Jones, "Rigorous benchmarking in reasonable time" (ISMM 2013), for the hierarchy; the shrinkage is the
usual scaled-inverse-chi-squared posterior of a normal variance (Gelman et al., Bayesian Data Analysis, 2.6).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev

import numpy as np

from accel.measuring.comparison import Interval


@dataclass(frozen=True)
class ProcessNoise:
    """How far identical programs lie apart from process to process: standard deviation of the log-ratio, and how many
    relaunches this prior knowledge is worth."""

    sd: float
    weight: float


STEADY_NOISE = ProcessNoise(sd=0.011, weight=10)
STEADY_ALONE = ProcessNoise(
    sd=0.011, weight=1
)  # where no second stage is asked: on a machine that is less steady than ours
DEFAULT_MALLOC_NOISE = ProcessNoise(sd=0.09, weight=5)


def paired_log_ratios(baseline_ns: Sequence[float], candidate_ns: Sequence[float]) -> list[float]:
    """Log of baseline over candidate, pair by pair: above 0 the candidate is faster.

    >>> paired_log_ratios([20e6], [10e6])
    [0.6931471805599453]
    """
    return [math.log(b / c) for b, c in zip(baseline_ns, candidate_ns, strict=False)]


@dataclass(frozen=True)
class Spread:
    """What relaunches showed of the processes' spread: squares, each by the variance expected of it, and degrees of freedom."""

    squares: float
    freedom: int


def interval(
    relaunches: Sequence[Sequence[float]], noise: ProcessNoise, *, confidence: float = 0.95, spread: Spread | None = None
) -> Interval:  # fmt: skip
    """The speed-up with its interval from the log-ratios of each relaunch; `spread` is that of all plans, where there are others.

    >>> interval([[0.69, 0.70, 0.69]] * 3, STEADY_NOISE)
    Interval(ratio=1.99..., low=1.9..., high=2.0..., relaunches=3, pairs=9)
    """
    medians = np.array([float(np.median(ratios)) for ratios in relaunches])
    weights = 1 / np.array([expected_variance(ratios, noise) for ratios in relaunches])
    centre = float(weights @ medians / weights.sum())
    own = spread or Spread(float(weights @ (medians - centre) ** 2), len(medians) - 1)
    freedom = noise.weight + own.freedom
    scale = max((noise.weight + own.squares) / freedom, own.squares / max(own.freedom, 1))
    half = student_quantile(0.5 + confidence / 2, freedom) * math.sqrt(scale / float(weights.sum()))
    return Interval(
        ratio=math.exp(centre),
        low=math.exp(centre - half),
        high=math.exp(centre + half),
        relaunches=len(medians),
        pairs=sum(len(ratios) for ratios in relaunches),
    )


def expected_variance(ratios: Sequence[float], noise: ProcessNoise) -> float:
    """Of a relaunch's median log-ratio: what processes vary by, and what so many pairs leave open."""
    return noise.sd**2 + median_variance(tuple(ratios))


@lru_cache(4096)  # each relaunch is asked again at each look
def median_variance(values: tuple[float, ...], *, resamples: int = 200) -> float:
    """Bootstrap variance of the median; reproducible (fixed seed).

    Source: Efron & Tibshirani, An Introduction to the Bootstrap, ch. 6.
    """
    data = np.asarray(values)
    if len(data) < 2:
        return 1.0
    picks = np.random.default_rng(0).integers(0, len(data), (resamples, len(data)))
    return float(np.median(data[picks], axis=1).var())


@lru_cache
def student_quantile(probability: float, freedom: float) -> float:
    """Quantile of Student's t for any degrees of freedom from 1 on, to nine digits.

    With t = √freedom · tan(angle) the distribution is the area under cosine to the power of freedom - 1. That area is concave
    above 0, so Newton's steps come up to the angle from below and never pass it.
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    half_area = math.sqrt(math.pi) / 2 * math.exp(math.lgamma(freedom / 2) - math.lgamma((freedom + 1) / 2))
    wanted = abs(2 * probability - 1) * half_area
    angle, step = 0.0, 1.0
    while step > 1e-12:
        area = angle / 2 * float(weights @ np.cos(angle / 2 * (nodes + 1)) ** (freedom - 1))
        step = (wanted - area) / math.cos(angle) ** (freedom - 1)
        angle += step
    return math.copysign(math.sqrt(freedom) * math.tan(angle), probability - 0.5)


def spread_of(relaunches: Sequence[Mapping[str, Sequence[float]]], noise: ProcessNoise) -> Spread:
    """How far processes lie apart, from the log-ratios of all plans (relaunch by relaunch, by label).

    Relaunches are the blocks of a randomised block design. The logarithm of a process's step time is made of its plan, its
    relaunch (the machine then) and its own luck. What the first two leave is luck, with P · (R - 1) degrees of freedom for P
    plans and R relaunches, where one plan alone has R - 1. Plans that were decided earlier have gaps, for which least squares
    makes up. The fit is independent of a plan's difference from the baseline, so Student's t is exact where all processes vary
    alike; where they do not, the spread is that of a usual one.

    Source: Montgomery, Design and Analysis of Experiments, ch. 4 (randomised complete block design, missing values).


    >>> spread_of([{"a": [0.1] * 9, "b": [0.3] * 9}, {"a": [0.1] * 9, "b": [0.3] * 9}], STEADY_NOISE)
    Spread(squares=..., freedom=2)
    """
    plans = sorted({label for relaunch in relaunches for label in relaunch})
    rows, values = [], []
    for number, relaunch in enumerate(relaunches):
        weight = np.mean([expected_variance(ratios, noise) for ratios in relaunch.values()]) ** -0.5
        medians = {label: float(np.median(ratios)) for label, ratios in relaunch.items()}
        for label, median in {"": 0.0, **medians}.items():  # "": the baseline, to which all are relative
            rows.append(
                [each == number for each in range(len(relaunches))] + [each == label for each in plans]
            )
            rows[-1] = [weight * each for each in rows[-1]]
            values.append(weight * median)
    design, measured = np.array(rows), np.array(values)
    fitted, _, rank, _ = np.linalg.lstsq(design, measured, rcond=None)
    residuals = measured - design @ fitted
    return Spread(
        2 * float(residuals @ residuals), len(measured) - int(rank)
    )  # 2: a ratio is of two processes


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
