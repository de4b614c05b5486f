"""Events that overlap without one enclosing the other, made to nest: a coarse clock, or damage."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Ints

CLOCK_NS = 1000  # torch before 2.3 wrote begins and ends to the µs or half of it


def cut_at_parents(order: Ints, start_ns: Ints, duration_ns: Ints, thread: Ints) -> tuple[Ints, Ints, int]:
    """New begins and durations, and how many events had to be cut by more than a clock's tick.

    An event that begins at most a tick before its neighbour's end begins at that end; one that outlives the event it
    began in ends with it. `order` is that of `nesting_order`.
    """
    import numpy as np

    starts, ends, threads = start_ns.tolist(), (start_ns + duration_ns).tolist(), thread.tolist()
    running: list[int] = []
    current, cut = None, 0
    for i in order.tolist():
        if threads[i] != current:
            running, current = [], threads[i]
        while running and _is_over(ends[running[-1]], starts[i], ends[i]):
            starts[i] = max(starts[i], ends[running.pop()])
        if running:
            around = running[-1]
            cut += ends[i] - ends[around] > CLOCK_NS
            starts[i], ends[i] = max(starts[i], starts[around]), min(ends[i], ends[around])
        ends[i] = max(ends[i], starts[i])
        running.append(i)
    begins = np.array(starts, dtype=np.int64)
    return begins, np.array(ends, dtype=np.int64) - begins, cut


def _is_over(end: int, begins: int, ends: int) -> bool:
    """Whether what ends at `end` is a neighbour of the next event, not its parent."""
    return end <= begins or (end < ends and end - begins <= CLOCK_NS)
