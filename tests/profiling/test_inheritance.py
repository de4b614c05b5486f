"""Names by number."""

from __future__ import annotations

import numpy as np

from accel.profiling.inheritance import NumberedNames


def test_names_by_number_are_spelled_compared_and_renamed():
    names = NumberedNames(("a", "b", "c"), np.array([2, 0, 0, 1]))
    assert names.spelled().tolist() == ["c", "a", "a", "b"]
    assert names.where("a").tolist() == [False, True, True, False]
    assert not names.where("x").any()
    assert names.renamed(str.upper).spelled().tolist() == ["C", "A", "A", "B"]


def test_names_that_become_equal_become_one():
    names = NumberedNames(("a", "b", "c"), np.array([2, 0, 0, 1])).renamed(
        lambda name: "x" if name in "ab" else name
    )
    assert names.spelled().tolist() == ["c", "x", "x", "x"]
    assert names.where("x").tolist() == [False, True, True, True]
