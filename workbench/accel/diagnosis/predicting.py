"""Predictions: Amdahl's law over measured shares, with the range that each part's speed-up was seen to have.

No prediction goes beyond the roofline where the cost of operations is known (`--shapes`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from accel.diagnosis.dispatch import call_scale
from accel.profiling.findings import Prediction

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.op_cost import OpCost


GONE = float("inf")
AMDAHL = "Amdahl: "  # prefix of `Prediction.basis` where Amdahl's law was used
SHARE_ERROR = 0.1  # how much a share from a few profiled steps may be off: 10 % of itself, upwards at most 10 % of the rest


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


def amdahl(basis: str, *parts: Part, of: Literal["step", "cell"] = "step") -> Prediction:
    """How many times as fast the step, or the cell, becomes when its parts do; the rest stays as it is.

    >>> str(amdahl("", Part(0.5, 1.0, 2.0, GONE)))
    '1.33× [1.00, 2.22]'

    `basis` says which shares and which ranges, for the reader; the interval allows for errors of the shares as well. Source:
    Amdahl 1967.
    """

    left = [_left([(part.share, getattr(part, level)) for part in parts], sure=sure) for level, sure in _ENDS]
    longest, expected, shortest = left
    return Prediction(_inverse(expected), _inverse(longest), _inverse(shortest), AMDAHL + basis, of)


_ENDS = (("low", 1.0 - SHARE_ERROR), ("factor", 1.0), ("high", 1.0 + SHARE_ERROR))


def _left(parts: list[tuple[float, float]], *, sure: float) -> float:
    """What is left of a step of length 1; a part that gets slower is as much larger as one that gets faster is smaller."""
    saved = sum(
        _off(share, sure if factor > 1 else 2.0 - sure) * (1.0 - 1.0 / factor) for share, factor in parts
    )
    return 1.0 - saved


def _off(share: float, sure: float) -> float:
    """The share with its error: what is nearly all of the step is not called the whole of it, which would leave nothing."""
    return share * sure if sure < 1 else share + (sure - 1.0) * min(share, 1.0 - share)


def _inverse(left: float) -> float:
    """A speed-up from what is left of the step; what would vanish entirely is called 1000 times as fast."""
    return 1.0 / max(left, 1e-3)


# Time of accel's hooks around one phase, on an AMD EPYC; assumed: they never take more than 30 % of a step.
MARKED_MS, LEAST_UNMARKED = 0.022, 0.7
EACH_BATCH = ("data", "copy", "forward", "loss", "backward", "recompute")  # phases of every micro-batch


def share_without_marks(evidence: Evidence) -> float:
    """Share of a timed step that the cell's own code takes; accel's hooks around the phases take the rest."""
    if evidence.is_of_trace or not evidence.profile.step_ms > 0:
        return 1.0
    phases = [phase.name for phase in evidence.profile.phases if not phase.is_gap]
    count = sum(evidence.workload.accumulation if name in EACH_BATCH else 1 for name in phases)
    return max(LEAST_UNMARKED, 1.0 - MARKED_MS * call_scale(evidence) * count / evidence.profile.step_ms)


def without_marks(predicted: Prediction | None, unmarked: float) -> Prediction | None:
    """Raise the upper end: without accel's hooks the step is shorter, so the part that goes away is a larger share of it.

    >>> str(without_marks(amdahl("", Part(0.5, 1.0, 2.0, 2.0)), unmarked=0.9))
    '1.33× [1.00, 1.44]'
    """
    if predicted is None or predicted.of == "cell" or not predicted.basis.startswith(AMDAHL):
        return predicted
    left = 1.0 / predicted.high
    # A part that is nearly the whole step is never taken for the whole step.
    without = max(1.0 - (1.0 - left) / unmarked, left / 2)
    return replace(predicted, high=max(predicted.high, _inverse(without)))


def most_at_peak(evidence: Evidence, wanted: Callable[[str], bool], dtype: str) -> float:
    """How many times as fast the wanted operations can become at most in that dtype: all of them at the machine's peaks.

    >>> most_at_peak(evidence, lambda op: "conv" in op, "bfloat16")
    3.1

    Unbounded where the profile holds no costs or no peaks. A dtype of two bytes moves half the bytes of float32.
    """
    peaks = evidence.profile.peaks
    known = [
        c for c in evidence.profile.costs if wanted(c.op) and c.flops and c.bytes is not None and c.ms > 0
    ]
    if peaks is None or not known or any(peaks.of(cost.device) is None for cost in known):
        return GONE
    attainable = sum(_attainable_ms(cost, evidence, dtype) for cost in known)
    return max(1.0, sum(cost.ms for cost in known) / attainable)


def _attainable_ms(cost: OpCost, evidence: Evidence, dtype: str) -> float:
    device = evidence.profile.peaks.of(cost.device) if evidence.profile.peaks else None
    assert device is not None  # asked before
    smaller = 2 if dtype in ("bfloat16", "float16") and cost.dtype == "float32" else 1
    moved = (cost.bytes or 0.0) / smaller
    computing = (cost.flops or 0.0) / device.flop_rate(dtype)
    return 1e3 * max(computing, moved / device.byte_rate(moved / max(cost.calls, 1e-9)))
