"""A budget is wall time from the command on, and whatever a trial waits for ends with it; seconds: `test_wall_budget.py`."""

from __future__ import annotations

import pytest

from accel.measuring.ladder import Ladder
from accel.plans import Plan
from accel.workers.relaunch_estimate import least_relaunch_s, that_fit, what_does_not_fit
from accel.workers.time_budget import ENDING_S, PhaseClock, TimeBudget
from tests.workers.conftest import CELL, worker_processes

ENDLESS_S = 600.0  # that a wait would take without a budget


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_a_budget_counts_from_the_moment_it_was_asked_for():
    clock = Clock()
    budget = TimeBudget(10.0, clock=clock)
    clock.now += 4.0
    assert (budget.used_s, budget.left_s) == (4.0, pytest.approx(6.0 - ENDING_S))
    clock.now += 6.0
    assert budget.is_up
    assert budget.is_strict


def test_nobody_asked_for_the_usual_time_so_it_ends_nothing():
    budget = TimeBudget(None, usual_s=240.0, clock=Clock())
    assert (budget.seconds, budget.left_s, budget.is_strict) == (240.0, 240.0, False)


def test_phases_share_out_all_of_the_time():
    clock = Clock()
    phases = PhaseClock("preparing", began=98.0, clock=clock)
    phases.enter("measuring", "round 1")
    clock.now += 3.0
    phases.enter("measuring", "round 2")
    assert phases.now == "measuring, round 2"
    clock.now += 4.0
    phases.enter("comparing")
    clock.now += 1.0
    phases.enter("measuring", "round 1")
    clock.now += 2.0
    phases.end()
    clock.now += 50.0
    assert phases.now == ""
    assert phases.spent == (("preparing", 2.0), ("measuring", 9.0), ("comparing", 1.0))


STEPS = """
for x, y in loader:
    if {waits}:
        time.sleep(600)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
WAITS = {  # what a trial can wait for in vain, each for ten minutes
    "a step": STEPS.format(waits="os.getpid() != home"),
    "a first step of the plan": STEPS.format(waits="optimizer.param_groups[0]['fused']"),
    "what stands before the loop": "if os.getpid() != home:\n    time.sleep(600)\ntrain()",
}


@pytest.mark.timeout(180)  # less than the default: the budget has to end the trial
@pytest.mark.parametrize(
    "cell",
    [
        pytest.param(cell, id=name, marks=[pytest.mark.whole] if name == "a step" else [])
        for name, cell in WAITS.items()
    ],
)
def test_whatever_a_trial_waits_for_ends_with_its_budget(workbench, cell):
    workbench.profile(cell)
    ladder = workbench.try_("fused_optimizer", budget_s=7, timeout_s=ENDLESS_S)
    assert ladder.rows[0].verdict == "undecided"
    assert workbench.trials[-1].is_out_of_time
    assert sum(seconds for _, seconds in ladder.took.phases) == pytest.approx(ladder.took.seconds, abs=4.0)
    assert "the time was up" in str(ladder)
    assert "--budget-s" in ladder.took.advice
    assert "unchanged" in ladder.unchanged_line
    assert worker_processes() == []
    assert workbench.trials[-1].state == "done"


def test_a_plan_that_does_not_warm_up_in_time_leaves_the_others_theirs(workbench):
    workbench.profile(WAITS["a first step of the plan"])
    ladder = workbench.try_("channels_last", "fused_optimizer", budget_s=75, timeout_s=ENDLESS_S)
    late, other = ladder["fused_optimizer"], ladder["channels_last"]
    assert late.state == "failed"
    assert "--budget-s" in late.error
    assert other.headline or other.steady


def test_a_trial_without_a_budget_says_how_long_it_took_and_that_it_is_decided_or_not(workbench):
    workbench.profile(CELL)
    ladder = workbench.try_("fused_optimizer")
    assert isinstance(ladder, Ladder)
    assert ladder.took.budget_s is None
    assert ladder.took.ended_by in ("every plan is decided", "1 relaunch left at least one plan undecided")
    assert {"starting workers", "measuring"} <= {phase for phase, _ in ladder.took.phases}


@pytest.mark.timeout(180)  # less than the default: the budget has to end the trial
def test_training_to_a_quality_ends_with_its_budget_too(workbench):
    workbench.profile(CELL)
    result = workbench.try_(
        "fused_optimizer", until="loss<=0", held_out=workbench.namespace["loader"], budget_s=8
    )
    assert result.took.ended_by == "the time was up"
    assert {curve.ending for row in result.rows for curve in row.curves} <= {"out of time"}
    assert worker_processes() == []


def plans(*texts):
    return [Plan.parse(text) for text in texts]


def test_what_does_not_fit_is_said_before_anything_is_measured():
    quick, slow = plans("channels_last"), plans("channels_last", "compile_model")
    assert what_does_not_fit(quick, least_relaunch_s(quick, 0.02, 5.0), 30.0) == ""
    told = what_does_not_fit(slow, least_relaunch_s(slow, 0.5, 5.0), 30.0)
    assert told.startswith("--budget-s 30 is short: measuring 2 plans takes about ")
    assert "compiling" in told


def test_more_plans_longer_steps_and_cold_workers_take_longer():
    least = least_relaunch_s(plans("autocast"), 0.1, 0.0)
    assert least < least_relaunch_s(plans("autocast", "channels_last"), 0.1, 0.0)
    assert least < least_relaunch_s(plans("autocast"), 1.0, 0.0)
    assert least < least_relaunch_s(plans("autocast"), 0.1, 5.0)


@pytest.mark.parametrize(
    ("budget_s", "fitting"),
    [
        (100, ["compile_model", "channels_last", "autocast"]),
        (50, ["channels_last", "autocast"]),  # the first alone would take 40 s of 30
        (25, ["channels_last"]),
        (5, ["channels_last"]),  # none fits: the one that takes least
    ],
)
def test_a_plan_that_does_not_fit_leaves_its_place_to_later_ones_that_do(budget_s, fitting):
    def takes_s(some):
        return sum(40.0 if plan.compiles else 9.0 + len(plan.names) for plan in some)

    found = that_fit(plans("compile_model", "channels_last", "autocast"), takes_s, budget_s)
    assert [*map(str, found)] == fitting
