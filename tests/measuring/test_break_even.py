"""When a plan has earned back its set-up, by numbers made by hand."""

from __future__ import annotations

import pytest

from accel.measuring.break_even import BreakEven, break_even, setup_seconds
from accel.measuring.comparison import Interval

TWICE = Interval(2.0, 1.5, 2.5, 4, 120)


def test_the_steps_are_the_setup_over_what_a_step_saves():
    found = break_even(12.0, 40.0, TWICE, "faster")
    assert found.steps == 600  # 40 ms become 20 ms
    assert (found.low, found.high) == (500, 900)  # at 16 ms and at 26.7 ms
    assert str(found) == "pays off after 600 steps [500, 900] (12 s of set-up)"


def test_steps_are_told_in_three_digits():
    assert break_even(12.345, 33.3, Interval(1.3, 1.2, 1.4, 4, 120), "faster").steps == 1610


@pytest.mark.parametrize(
    ("verdict", "says"),
    [
        ("slower", "never pays off: it is slower (3 s compiling)"),
        ("no difference", "never pays off: no difference found (3 s compiling)"),
        ("undecided", "not known yet when it pays off (3 s compiling)"),
    ],
)
def test_what_is_not_faster_never_pays_off_or_is_not_known_to(verdict, says):
    found = break_even(3.0, 40.0, Interval(0.6, 0.5, 1.1, 4, 120), verdict)
    assert found.steps is None
    assert found.sentence("compiling") == says


def test_nothing_is_claimed_before_there_is_an_interval():
    assert break_even(3.0, 40.0, None, "faster").steps is None


def test_an_interval_that_reaches_below_one_has_no_upper_end():
    found = break_even(1.0, 10.0, Interval(1.1, 0.99, 1.2, 4, 120), "faster")
    assert found.steps == 1100
    assert found.high is None
    assert "[600, never]" in str(found)


def test_no_setup_pays_off_at_once():
    assert break_even(0.0, 10.0, TWICE, "faster") == BreakEven(0.0, 0, 0, 0, "faster")


def test_setup_is_what_the_warm_up_took_beyond_the_steps_that_it_consists_of():
    base_setup_s, own_setup_s, base_step_s, own_step_s, steps = 0.5, 12.5, 0.3, 0.2, 5
    found = setup_seconds(
        own_setup_s + steps * own_step_s,
        base_setup_s + steps * base_step_s,
        steps=steps,
        saved_s=base_step_s - own_step_s,
    )
    assert found == pytest.approx(12.0)


def test_setup_is_never_below_zero():
    assert setup_seconds(1.0, 1.2, steps=5, saved_s=0.0) == 0.0
