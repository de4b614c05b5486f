"""When a trial is decided."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.measuring.comparison import Interval
from accel.measuring.verdict import confidence_shown, confidence_to_stop, decide, is_look


def around(ratio, half, relaunches):
    return Interval(ratio, ratio * (1 - half), ratio * (1 + half), relaunches, 20 * relaunches)


def test_a_small_difference_is_not_believed_of_one_process_alone():
    odd_process = around(0.93, 0.02, relaunches=1)
    assert decide(odd_process, odd_process, is_last=False) is None
    again = around(0.93, 0.02, relaunches=2)
    assert decide(again, again, is_last=False) == "slower"


def test_a_large_difference_is_decided_by_the_first_relaunch():
    assert decide(around(1.9, 0.03, 1), around(1.9, 0.05, 1), is_last=False) == "faster"
    assert decide(around(0.6, 0.03, 1), around(0.6, 0.05, 1), is_last=False) == "slower"


def test_the_last_relaunch_decides_by_the_interval_that_is_shown():
    shown, strict = around(1.05, 0.03, 4), around(1.05, 0.06, 4)
    assert decide(shown, strict, is_last=False) is None
    assert decide(shown, strict, is_last=True) == "faster"
    assert decide(around(1.05, 0.06, 4), strict, is_last=True) == "undecided"


@pytest.mark.parametrize("relaunches", [1, 2, 3, 4])
def test_within_the_tolerance_there_is_no_difference_at_any_time(relaunches):
    shown = around(1.005, 0.01, relaunches)
    assert decide(shown, shown, is_last=False) == "no difference"


@given(st.integers(1, 60))
def test_no_look_asks_for_less_than_what_is_shown(relaunches):
    assert 0.95 <= confidence_shown(relaunches) <= confidence_to_stop(relaunches) < 1


def test_between_two_late_looks_nothing_is_decided():
    clear = [around(1.3, 0.05, relaunches) for relaunches in range(6, 61)]
    ends_at = [shown.relaunches for shown in clear if decide(shown, shown, is_last=False)]
    assert ends_at == [relaunches for relaunches in range(6, 61) if is_look(relaunches)]
    assert decide(around(1.3, 0.05, 7), around(1.3, 0.05, 7), is_last=True) == "faster"
