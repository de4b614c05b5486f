"""No prediction beyond the roofline: what the measured peaks leave for operations whose cost is known (`--shapes`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from accel.diagnosis.predicting import GONE

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.op_cost import OpCost


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
