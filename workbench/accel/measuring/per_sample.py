"""Steps that hold different numbers of samples are compared by the time of one sample."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Protocol

SAME_SIZE = 0.05  # batches of varying size differ a little between two runs of one plan; plans that change them, by half and more


class Timed(Protocol):
    """Rounds of one variant: the mean time of a step in each, its mean number of samples, and that of every step."""

    @property
    def step_ns(self) -> list[float]: ...
    @property
    def step_samples(self) -> list[float]: ...
    @property
    def every_step_samples(self) -> list[int]: ...


def differ(baseline: Sequence[int], candidate: Sequence[int]) -> bool:
    """Whether a usual step of the candidate holds another number of samples than one of the baseline.

    >>> differ([64, 64, 64, 5], [128, 128]), differ([64, 64, 64, 5], [64, 64])
    (True, False)

    Never where samples could not be counted.
    """
    base, own = usual(baseline), usual(candidate)
    return bool(base and own) and abs(own / base - 1.0) > SAME_SIZE


def usual(samples: Sequence[int]) -> float:
    """Samples of a usual step: the median, which an epoch's smaller last batch does not move; 0 if unknown."""
    return median(samples) if samples else 0.0


def compared_times(baseline: Timed, candidate: Timed) -> tuple[list[float], list[float]]:
    """What is set against each other, round by round: times of a step, or of a sample where steps differ in size."""
    if not differ(baseline.every_step_samples, candidate.every_step_samples):
        return baseline.step_ns, candidate.step_ns
    return _of_a_sample(baseline), _of_a_sample(candidate)


def _of_a_sample(timed: Timed) -> list[float]:
    return [time / max(count, 1.0) for time, count in zip(timed.step_ns, timed.step_samples, strict=True)]
