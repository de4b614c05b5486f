"""Bytes read and written per second within one device's memory, by a copy and by a sum."""

from __future__ import annotations

import time

from accel.machine.peaks import timing
from accel.machine.peaks.timing import Timed

SHARE = 0.75  # of the budget for each level of memory
CPU_CALL_BYTES = 1 << 20  # a call on less data is over sooner than the clock ticks
GPU_CALL_BYTES = (
    256 << 20
)  # starting one kernel takes as long as moving some megabytes: many, between two events


def moving(total_bytes: int, device: str, timed: Timed) -> float:
    """Bytes read and written per second, by a copy and by the sum of two arrays, over buffers of so many bytes in all.

    >>> moving(384 << 20, "cpu", wall)
    41.2e9
    """
    import torch

    one, other, result = torch.ones((3, max(total_bytes // 12, 1024)), dtype=torch.float32, device=device)
    moved, best, until = one.numel() * 4, 0.0, time.perf_counter() + SHARE * timing.BUDGET_S
    repeats = max(1, (CPU_CALL_BYTES if device == "cpu" else GPU_CALL_BYTES) // moved)
    while best == 0.0 or time.perf_counter() < until:
        copying = timed(lambda: [result.copy_(one) for _ in range(repeats)])
        adding = timed(lambda: [torch.add(one, other, out=result) for _ in range(repeats)])
        best = max(best, 2 * moved * repeats / copying, 3 * moved * repeats / adding)
    return best
