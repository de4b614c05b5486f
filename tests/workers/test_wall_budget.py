"""Wall seconds against `--budget-s`, on a clock that only the work of stand-in workers moves: 10 % and 3 s over, at the most."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import AccelError
from accel.plans.plan import Plan
from accel.workbench import trial_start
from accel.workbench import workbench as workbench_module
from accel.workers import time_budget
from accel.workers.messages import Load, StepsDone
from accel.workers.relaunch_estimate import QUIET, MachineLoad
from accel.workers.staged_trial import TrialSetting
from accel.workers.time_budget import TimeBudget
from accel.workers.trial import Trial
from tests.workers.conftest import CELL
from tests.workers.stand_ins import Costly, Costs, MachineClock

PLANS = ("channels_last", "compile_model")
LOAD = Load("", "as the notebook", "train()", "<cell>", "", "/", [], {}, False)
CHECKED_S = 0.2  # looking whether anything of the notebook changed


class Pool:
    """Has no worker: each comes from the trial's `groups`."""

    def take(self, count):
        return []

    def start_s(self, count):
        return 5.0


def seconds_of(costs, budget_s, *, packing_s=0.0, plans=PLANS, busy=QUIET, failing=()):
    """A trial on such a machine: the seconds from the command to its answer, and the trial."""
    clock = MachineClock()
    began = clock.now
    budget = TimeBudget(budget_s, clock=clock)
    clock.now += packing_s
    setting = TrialSetting(
        "a machine", (), "as the notebook", False, True, budget=budget, step_s=costs.step, load=busy
    )
    parcel = SimpleNamespace(blob=b"", memory=SimpleNamespace(descriptor=None), close=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        clock.times_trials(patch)

        def checked():
            clock.now += CHECKED_S
            return ""

        trial = Trial(
            [Plan.parse(text) for text in plans], parcel, LOAD, Pool(), setting, check=checked,
            groups=lambda variant, load: (Broken if str(variant.plan) in failing else Costly)(clock, costs, variant.plan),
        )  # fmt: skip
        trial.start()
        trial._thread.join()
    return clock.now - began, trial


class Broken(Costly):
    """Fails in its first step."""

    def receive(self, kind, *, timeout_s):
        if kind is StepsDone:
            raise AccelError("a step", because="it failed", do="Nothing.")
        return super().receive(kind, timeout_s=timeout_s)


def allowed_s(budget_s):
    return 1.1 * budget_s + 3.0


@pytest.mark.parametrize("budget_s", [10, 30, 60])
@pytest.mark.parametrize(
    "costs",
    [Costs(), Costs(start=50.0), Costs(ship=70.0), Costs(compiling=600.0), Costs(step=4.0), Costs(step=45.0), Costs(effect=30.0)],
    ids=["quick", "slow start", "slow shipping", "long compiling", "long steps", "endless steps", "slow end"],
)  # fmt: skip
def test_a_trial_takes_no_longer_than_its_budget_and_what_is_allowed(costs, budget_s):
    took_s, trial = seconds_of(costs, budget_s)
    assert trial.state == "done"
    assert took_s <= allowed_s(budget_s)
    assert trial.seconds == pytest.approx(took_s)


@settings(max_examples=50)
@given(
    st.floats(1, 300), st.floats(0, 1),
    st.builds(Costs, *[st.floats(0.001, most) for most in (100, 59, 900, 59, 50)]),
)  # fmt: skip
def test_so_it_is_on_every_machine(budget_s, packing_share, costs):
    took_s, trial = seconds_of(costs, budget_s, packing_s=packing_share * budget_s)
    assert trial.state == "done"
    assert took_s <= allowed_s(budget_s)


def test_what_was_measured_before_a_plan_compiled_too_long_stays():
    _, trial = seconds_of(Costs(compiling=600.0), 30)
    assert trial.ladder["channels_last"].shown
    assert "--budget-s" in trial.ladder["compile_model"].error


@pytest.mark.parametrize(
    "where", [(workbench_module, "sorted_out"), (trial_start, "packed")], ids=["sorting", "packing"]
)
def test_what_comes_before_the_first_worker_counts(workbench, monkeypatch, where):
    clock, work = MachineClock(), getattr(*where)

    def slow(*given):
        clock.now += 400.0
        return work(*given)

    workbench.profile(CELL)
    monkeypatch.setattr(time_budget, "TimeBudget", partial(TimeBudget, clock=clock))
    monkeypatch.setattr(*where, slow)
    ladder = workbench.try_("fused_optimizer", budget_s=300)
    assert workbench.trials[-1].is_out_of_time
    assert ladder.rows[0].verdict == "undecided"
    assert ladder.took.seconds == pytest.approx(400.0)


BUSY = MachineLoad(others=3.0, cores=2)
THREE = ("channels_last", "fused_optimizer", "set_to_none")
BUSY_COSTS = Costs(start=12.0, ship=1.0, step=0.1, noise=0.05)


@pytest.mark.parametrize("budget_s", [30, 60, 90, 200])
def test_on_a_busy_machine_the_first_plan_is_measured_whatever_the_time(budget_s):
    took_s, trial = seconds_of(BUSY_COSTS, budget_s, plans=THREE, busy=BUSY)
    assert took_s <= allowed_s(budget_s)
    assert trial.ladder[THREE[0]].shown
    left = [plan for plan in THREE if not trial.ladder[plan].shown]
    said = "\n".join(trial.ladder.notes)
    assert ("Other programs keep this machine busy" in said) is bool(left)
    assert all(plan in said for plan in left)


def test_time_that_is_left_goes_to_the_plans_that_were_left_out():
    _, trial = seconds_of(BUSY_COSTS, 200, plans=THREE, busy=BUSY)
    assert [plan for plan in THREE if trial.ladder[plan].shown] == [*THREE]
    assert "not measured" not in "\n".join(trial.ladder.notes)


def test_a_first_plan_that_fails_leaves_its_time_to_the_next():
    _, trial = seconds_of(BUSY_COSTS, 200, plans=THREE, busy=BUSY, failing=THREE[:1])
    assert trial.state == "done"
    assert trial.ladder[THREE[0]].state == "failed"
    assert trial.ladder[THREE[1]].shown


def test_a_quiet_machine_leaves_nothing_out():
    _, trial = seconds_of(Costs(noise=0.05), 60, plans=THREE)
    assert all(trial.ladder[plan].shown for plan in THREE)


@pytest.mark.parametrize("started_s", [1.0, 5.0, 25.0])
def test_a_start_that_was_seen_under_load_is_not_taken_for_a_quiet_one(started_s):
    assert BUSY.starting_s(started_s, 4) <= max(started_s, 5.0 * 2.5 * 2)
    assert QUIET.starting_s(started_s, 4) == started_s
