"""Unions, gaps and overlaps equal what counting each nanosecond gives."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from accel.profiling.intervals import covered_until, gaps, overlap, union

END = 60
pieces = st.lists(st.tuples(st.integers(0, END), st.integers(0, END)).map(sorted), max_size=12)


def arrays(pairs):
    return np.array([a for a, _ in pairs], dtype=np.int64), np.array([b for _, b in pairs], dtype=np.int64)


def each_ns(pairs):
    return {ns for begin, end in pairs for ns in range(begin, end)}


@given(pieces)
def test_a_union_covers_the_same_in_disjoint_pieces_in_order(pairs):
    found = union(*arrays(pairs))
    assert each_ns(zip(found.begins.tolist(), found.ends.tolist(), strict=True)) == each_ns(pairs)
    assert found.length == len(each_ns(pairs))
    assert (found.begins[1:] > found.ends[:-1]).all()


@given(pieces)
def test_gaps_are_what_is_left(pairs):
    left = gaps(union(*arrays(pairs)), 0, END)
    assert each_ns(zip(left.begins.tolist(), left.ends.tolist(), strict=True)) == set(range(END)) - each_ns(
        pairs
    )


@given(pieces, pieces)
def test_an_overlap_is_what_both_cover(one, other):
    assert overlap(union(*arrays(one)), union(*arrays(other))) == len(each_ns(one) & each_ns(other))


@given(pieces, st.lists(st.integers(-5, END + 5), min_size=1))
def test_what_is_covered_until_a_time_counts_all_before_it(pairs, times):
    found = covered_until(union(*arrays(pairs)), np.array(times))
    assert found.tolist() == [len({ns for ns in each_ns(pairs) if ns < time}) for time in times]
