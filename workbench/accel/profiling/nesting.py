"""Which event encloses which, and which enclosing event is of a kind: for a million events in tenths of a second."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Flags, Ints


def nesting_order(thread: Ints, start_ns: Ints, duration_ns: Ints) -> Ints:
    """Thread by thread, parents before their children: by start, and of those that start together the longest first."""
    import numpy as np

    order = np.lexsort(
        (start_ns, thread)
    )  # as recorded, times are nearly sorted, and that is cheap; durations are not
    same = (np.diff(thread[order]) == 0) & (np.diff(start_ns[order]) == 0)
    if same.any():
        tied = np.flatnonzero(np.append(False, same) | np.append(same, False))
        rows = np.sort(order[tied])
        order[tied] = rows[np.lexsort((-duration_ns[rows], start_ns[rows], thread[rows]))]
    return order


def parents(order: Ints, start_ns: Ints, duration_ns: Ints, thread: Ints) -> Ints:
    """For each event the innermost one that was running when it began, or -1; `order` says which take part.

    >>> parents(nesting_order(thread, start, duration), start, duration, thread)
    array([-1,  0,  1,  0])

    The depth of an event is the number of those begun before it less those ended; its parent is the last one before it
    that is one level up. Where events overlap without one enclosing the other, see `overlaps`.
    """
    import numpy as np

    parent = np.full(len(start_ns), -1, dtype=np.int64)
    depth = _depths(order, start_ns, duration_ns, thread)
    if len(depth) and depth.max() < 2**15:
        depth = depth.astype(
            np.int16
        )  # numpy sorts so short integers by their digits, in a fifth of the time
    by_depth = np.argsort(depth, kind="stable")
    levels = np.split(by_depth, np.flatnonzero(np.diff(depth[by_depth])) + 1) if len(order) else []
    for above, level in pairwise(levels):
        parent[order[level]] = order[above[np.searchsorted(above, level) - 1]]
    return parent


def overlaps(parent: Ints, start_ns: Ints, duration_ns: Ints, thread: Ints) -> Flags:
    """Events that outlive the one they began in, or have the wrong one for a parent because another does."""
    ends = start_ns + duration_ns
    wrong: Flags = (parent >= 0) & (
        (ends > ends[parent]) | (start_ns < start_ns[parent]) | (thread != thread[parent])
    )
    return wrong


def nearest(parent: Ints, flagged: Flags) -> Ints:
    """For each event the innermost flagged one among itself and what encloses it, or -1."""
    import numpy as np

    count = len(parent)
    up = np.append(np.where(flagged, np.arange(count), parent), count)
    up[up < 0] = count
    while not np.array_equal(further := up[up], up):
        up = further
    return np.where(up[:count] == count, -1, up[:count])


class _Timed(NamedTuple):
    begins: Ints
    ends: Ints
    is_point: Flags


def _depths(order: Ints, start_ns: Ints, duration_ns: Ints, thread: Ints) -> Ints:
    """How many events are running when each begins, in the order given; one thread after the other on one line of time."""
    import numpy as np

    if not len(order):
        return np.zeros(0, dtype=np.int64)
    timed = _on_one_line(order, start_ns, duration_ns, thread)
    place = np.arange(len(order))
    ended = np.searchsorted(np.sort(timed.ends[~timed.is_point]), timed.begins, side="right")
    points = timed.begins[timed.is_point]
    # A point has ended for what begins later, and for the points after it; not for an event that begins with it.
    ended += np.where(
        timed.is_point, np.cumsum(timed.is_point) - 1, np.searchsorted(points, timed.begins, side="left")
    )
    return place - ended


def _on_one_line(order: Ints, start_ns: Ints, duration_ns: Ints, thread: Ints) -> _Timed:
    import numpy as np

    begins, lasts = start_ns[order], duration_ns[order]
    changes = np.append(0, np.cumsum(np.diff(thread[order]) != 0))
    first = np.flatnonzero(np.append(True, np.diff(changes)))
    earliest = np.minimum.reduceat(begins, first)
    lengths = np.maximum.reduceat(begins + lasts, first) - earliest + 1
    shift = np.append(0, np.cumsum(lengths)[:-1]) - earliest
    moved = begins + shift[changes]
    return _Timed(moved, moved + lasts, lasts == 0)
