"""Predictions: Amdahl's law over measured shares, with the range that each part's speed-up was seen to have."""

from __future__ import annotations

from dataclasses import dataclass

from accel.profiling.finding import Prediction

GONE = float("inf")


@dataclass(frozen=True)
class Part:
    """A part of the step, and how many times as fast it becomes: least, expected, most. Below 1 it gets slower.

    >>> Part(share=0.4, low=1.0, factor=1.5, high=2.0)
    """

    share: float
    low: float
    factor: float
    high: float

    def bounded(self, most: float) -> Part:
        """The same, but never faster than `most` times: what the machine's peaks leave."""
        return Part(self.share, min(self.low, most), min(self.factor, most), min(self.high, most))


def amdahl(basis: str, *parts: Part) -> Prediction:
    """How many times as fast the step becomes when its parts do; the rest stays as it is.

    >>> str(amdahl("", Part(0.5, 1.0, 2.0, GONE)))
    '1.3× [1, 2]'

    `basis` says which shares and which ranges, for the reader. Source: Amdahl 1967.
    """

    rest = max(0.0, 1.0 - sum(part.share for part in parts))
    expected = rest + sum(part.share / part.factor for part in parts)
    longest = rest + sum(part.share / part.low for part in parts)
    shortest = rest + sum(part.share / part.high for part in parts)
    return Prediction(_inverse(expected), _inverse(longest), _inverse(shortest), f"Amdahl: {basis}")


def _inverse(left: float) -> float:
    """A speed-up from what is left of the step; what would vanish entirely is called 1000 times as fast."""
    return 1.0 / max(left, 1e-3)
