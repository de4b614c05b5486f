"""Does a candidate's loss still follow the baseline's? Compared step by step against a measured noise floor.

Chaotic networks part from themselves within a few steps when sums are taken in another order, so a fixed tolerance is
wrong for some models and blind for others. The floor is measured: the baseline again, with every parameter moved by one
unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from accel.measuring.comparison import Quality

_CLOSE_BAND = (
    0.02  # what a low-precision format may move a loss without being called a drift, relative to its scale
)
_FLOOR_FACTOR = 10.0


def largest_difference(baseline: Sequence[float], other: Sequence[float]) -> float:
    """Largest difference of two loss curves over their common steps, relative to the baseline's typical size.

    >>> largest_difference([2.0, 1.0], [2.0, 1.1])
    0.0666...
    """
    steps = min(len(baseline), len(other))
    scale = sum(abs(value) for value in baseline[:steps]) / steps
    return max(abs(a - b) for a, b in zip(baseline[:steps], other[:steps], strict=True)) / (scale or 1.0)


def compare_losses(
    baseline: Sequence[float | None],
    candidate: Sequence[float | None],
    floor: Sequence[float | None] = (),
    *,
    effect: str = "exact",
) -> Quality:
    """Judge a candidate's losses: the same, following (within the floor or, for low-precision formats, the band), or drifting.

    `effect` is the plan's label: "exact", "close" or "changes training". A loss that is not a number where the baseline's
    is one is a drift.
    """
    pairs = [(b, c) for b, c in zip(baseline, candidate, strict=False) if b is not None]
    if not pairs:
        return Quality("unknown")
    base = [b for b, _ in pairs]
    if any(c is None for _, c in pairs):
        return Quality("drifts", math.inf, _floor(base, floor), len(pairs))
    other = [c for _, c in pairs if c is not None]
    if base == other:
        return Quality("same", 0.0, 0.0, len(pairs))
    difference, noise = largest_difference(base, other), _floor(base, floor)
    allowed = max(_FLOOR_FACTOR * noise, _CLOSE_BAND if effect == "close" else 1e-5)
    return Quality("follows" if difference <= allowed else "drifts", difference, noise, len(pairs))


def _floor(baseline: Sequence[float], floor: Sequence[float | None]) -> float:
    numbers = [value for value in floor if value is not None]
    return largest_difference(baseline, numbers) if numbers and baseline else 0.0
