"""Unions and lengths of time intervals, as numpy arrays of begins and ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from accel.profiling.kineto_columns import Ints


class Intervals(NamedTuple):
    """Disjoint, in order of time.

    >>> union(np.array([0, 5, 20]), np.array([10, 12, 30]))
    Intervals(begins=array([ 0, 20]), ends=array([12, 30]))
    """

    begins: Ints
    ends: Ints

    @property
    def length(self) -> int:
        """The time they cover."""
        return int((self.ends - self.begins).sum())

    def where(self, wanted: NDArray[np.bool_]) -> Intervals:
        """Some of them."""
        return Intervals(self.begins[wanted], self.ends[wanted])


def union(begins: Ints, ends: Ints) -> Intervals:
    """What at least one of the intervals covers; empty ones and touching borders leave no seam."""
    import numpy as np

    real = ends > begins
    begins, ends = begins[real], ends[real]
    order = np.argsort(begins, kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    first = np.append(True, begins[1:] > ends[:-1])[: len(begins)]
    last = np.append(first[1:], True)[: len(begins)]
    return Intervals(begins[first], ends[last])


def gaps(covered: Intervals, from_ns: int, until_ns: int) -> Intervals:
    """What lies between from and until and is not covered; `covered` must lie within."""
    import numpy as np

    begins, ends = np.append(from_ns, covered.ends), np.append(covered.begins, until_ns)
    return Intervals(begins, ends).where(ends > begins)


def overlap(one: Intervals, other: Intervals) -> int:
    """The time that both cover."""
    import numpy as np

    both = union(np.append(one.begins, other.begins), np.append(one.ends, other.ends))
    return one.length + other.length - both.length


def covered_until(intervals: Intervals, times: Ints) -> Ints:
    """For each time, how much of the intervals lies before it: differences give the share of any piece."""
    import numpy as np

    before = np.append(0, np.cumsum(intervals.ends - intervals.begins))
    place = np.searchsorted(intervals.begins, times, side="right")
    started = np.append(0, intervals.ends)[place]
    covered: Ints = before[place] - np.maximum(started - times, 0) * (place > 0)
    return covered
