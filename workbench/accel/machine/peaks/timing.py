"""How long measuring may take, and the time of one call."""

from __future__ import annotations

import time
from collections.abc import Callable

BUDGET_S = 0.4  # for each rate: enough that one repeat meets no other work
Timed = Callable[[Callable[[], object]], float]


def wall(work: Callable[[], object]) -> float:
    """Seconds of one call.

    >>> wall(lambda: sum(range(1000)))
    1.1e-05
    """
    started = time.perf_counter()
    work()
    return max(time.perf_counter() - started, 1e-9)


def by_events(work: Callable[[], object]) -> float:
    """Timed on the GPU itself: kernels run on after the call that launched them."""
    import torch

    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    before.record()
    work()
    after.record()
    after.synchronize()
    return max(float(before.elapsed_time(after)) / 1e3, 1e-9)
