"""How long it took, what ended it, and what would decide what is open."""

from __future__ import annotations

import pytest

from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.took import TOO_LONG_S, Took, advice_for, nice, out_of_time, seconds_to_decide


def row(ratio, half, *, relaunches=2, verdict="undecided", state="done"):
    shown = Interval(ratio, ratio / half, ratio * half, relaunches, 40) if half else None
    return Comparison("plan", verdict, shown, None, Quality("same"), "exact", state=state)


def test_it_names_the_phases_that_took_time_and_what_ended_it():
    took = Took(
        38.4,
        40.0,
        (("starting workers", 12.1), ("shipping the cell", 0.1), ("measuring", 26.2)),
        "the time was up",
    )
    assert str(took) == "Took 38 s of 40 s (starting workers 12 s, measuring 26 s); the time was up."
    assert str(Took(3.0, None, (), "every plan is decided")) == "Took 3 s; every plan is decided."


def test_four_times_the_relaunches_halve_an_interval():
    wide = Interval(1.1, 1.1 / 1.1**2, 1.1 * 1.1**2, 2, 40)  # twice as wide as would exclude 1
    assert seconds_to_decide(wide, relaunch_s=10.0) == pytest.approx(2 * 4 * 10.0)


def test_the_nearer_to_one_the_longer_until_it_is_told_apart():
    seconds = [seconds_to_decide(row(ratio, 1.3).headline, 10.0) for ratio in (1.25, 1.1, 1.05, 1.02)]
    assert seconds == sorted(seconds)


def test_what_is_undecided_is_told_what_would_decide_it():
    advice = advice_for([row(1.1, 1.21)], spent_s=30.0, relaunch_s=10.0, least_s=8.0)
    assert advice == "%accel try plan --budget-s 120 is likely to decide this plan."
    assert advice_for([row(1.5, 1.1, verdict="faster")], spent_s=30.0, relaunch_s=10.0, least_s=8.0) == ""
    assert advice_for([row(1.0, 0, state="failed")], spent_s=30.0, relaunch_s=10.0, least_s=8.0) == ""
    assert "answer" in advice_for([row(1.0, 0)], spent_s=10.0, relaunch_s=10.0, least_s=17.0)


@pytest.mark.parametrize("relaunch_s", range(1, 60))
def test_nobody_is_told_to_wait_for_more_than_an_hour(relaunch_s):
    advice = advice_for([row(1.02, 1.3)], spent_s=30.0, relaunch_s=relaunch_s, least_s=8.0)
    assert "not likely" in advice or float(advice.split("--budget-s ")[1].split()[0]) <= TOO_LONG_S


def test_a_difference_that_would_take_hours_is_not_worth_them():
    assert "not likely" in advice_for([row(1.02, 1.9)], spent_s=30.0, relaunch_s=30.0, least_s=8.0)


@pytest.mark.parametrize(("seconds", "told"), [(1, 15), (52.9, 60), (240, 240), (4000, 5400)])
def test_a_budget_is_a_round_number(seconds, told):
    assert nice(seconds) == told


@pytest.mark.parametrize("shown", [row(1.1, 1.21), row(1.0, 0)])
def test_advice_names_a_longer_time_than_the_one_that_was_not_enough(shown):
    advice = advice_for([shown], spent_s=51.0, relaunch_s=1.0, least_s=8.0, budget_s=90.0)
    assert float(advice.split("--budget-s ")[1].split()[0]) > 90


HERE = Interval(1.1, 0.9, 1.5, 4, 40)


def undecided(because, plan="plan", here=None, time_decides=False):
    shown = Interval(1.4, 1.3, 1.5, 4, 40)
    return Comparison(
        plan, "undecided", shown, None, Quality("same"), "exact", here=here, open_because=because, time_decides=time_decides
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "advice"),
    [
        (
            [undecided("heap", here=HERE)],
            "A longer trial cannot show how this notebook's memory allocator affects the plan; with steady_allocator, the "
            "notebook's no longer matters: %accel try plan+steady_allocator.",
        ),
        (
            [undecided("heap", "plan+steady_allocator", here=HERE)],
            "A longer trial cannot show how this notebook's memory allocator affects the plan. Profile the cell, keep the plan, "
            "profile again, and compare the step times.",
        ),
        (
            [undecided("starting")],
            "A longer trial cannot show what it costs to start workers in each epoch. Try the plan with persistent=True, so "
            "that workers start only once.",
        ),
        (
            [undecided("first epoch"), undecided("starting")],
            "This trial cannot run enough steps after the first epoch. Keep the plan, and compare the time of a later epoch with "
            "and without it.",
        ),
    ],
)
def test_what_more_time_does_not_decide_is_not_said_to_need_it(rows, advice):
    assert advice_for(rows, spent_s=30.0, relaunch_s=10.0, least_s=8.0, budget_s=30.0) == advice


def test_rows_that_more_time_decides_are_named_alone():
    rows = [undecided("starting", "x"), undecided("heap", "y", HERE), row(1.1, 1.21)]
    advice = advice_for(rows, spent_s=30.0, relaunch_s=10.0, least_s=8.0)
    assert advice.startswith("%accel try plan --budget-s ")


@pytest.mark.parametrize(
    ("because", "time_decides"),
    [("heap", True), ("starting", True), ("heap not measured", True), ("first epoch", True), ("", False)],
)
def test_a_plan_whose_reason_to_be_open_time_may_remove_is_advised_a_longer_one(because, time_decides):
    open_row = undecided(because, here=HERE if because == "heap" else None, time_decides=time_decides)
    advice = advice_for([open_row], spent_s=30.0, relaunch_s=10.0, least_s=8.0, budget_s=30.0)
    assert advice == f"%accel try plan --budget-s 60 {'may' if because else 'is likely to'} decide this plan."


def test_time_that_is_left_is_named():
    assert out_of_time(0.4, 12.0) == "the time was up"
    assert out_of_time(11.0, 14.2) == "another relaunch takes at least 14 s, and only 11 s were left"
