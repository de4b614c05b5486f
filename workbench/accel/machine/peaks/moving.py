"""Bytes read and written per second within one device's memory, by a copy and by a sum."""

from __future__ import annotations

import time

from accel.machine.peaks import timing
from accel.machine.peaks.timing import Timed

SHARE = 0.75  # of the budget for each level of memory
MEMORY_BYTES = 128 << 20  # larger than any cache that two cores have to themselves


def moving(total_bytes: int, device: str, timed: Timed) -> float:
    """Bytes read and written per second, by a copy and by the sum of two arrays, over buffers of so many bytes in all.

    >>> moving(384 << 20, "cpu", wall)
    41.2e9
    """
    import torch

    one, other, result = torch.ones((3, max(total_bytes // 12, 1024)), dtype=torch.float32, device=device)
    moved, best, until = one.numel() * 4, 0.0, time.perf_counter() + SHARE * timing.BUDGET_S
    repeats = max(1, (1 << 20) // moved)  # a call on little data is over sooner than the clock ticks
    while best == 0.0 or time.perf_counter() < until:
        copying = timed(lambda: [result.copy_(one) for _ in range(repeats)])
        adding = timed(lambda: [torch.add(one, other, out=result) for _ in range(repeats)])
        best = max(best, 2 * moved * repeats / copying, 3 * moved * repeats / adding)
    return best


def fitting(available_bytes: int) -> int:
    """Never more than a small part of the memory that is left."""
    return min(3 * MEMORY_BYTES, available_bytes // 16) if available_bytes else MEMORY_BYTES
