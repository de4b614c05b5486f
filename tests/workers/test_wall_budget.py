"""Wall seconds against `--budget-s`, on a clock that only the work of stand-in workers moves: 10 % and 3 s over, at the most."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.plans.plan import Plan
from accel.workbench import trial_start
from accel.workbench import workbench as workbench_module
from accel.workers import time_budget
from accel.workers.messages import Load
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


def seconds_of(costs, budget_s, *, packing_s=0.0):
    """A trial on such a machine: the seconds from the command to its answer, and the trial."""
    clock = MachineClock()
    began = clock.now
    budget = TimeBudget(budget_s, clock=clock)
    clock.now += packing_s
    setting = TrialSetting("a machine", (), "as the notebook", False, True, budget=budget, step_s=costs.step)
    parcel = SimpleNamespace(blob=b"", memory=SimpleNamespace(descriptor=None), close=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        clock.times_trials(patch)

        def checked():
            clock.now += CHECKED_S
            return ""

        trial = Trial(
            [Plan.parse(text) for text in PLANS], parcel, LOAD, Pool(), setting, check=checked,
            groups=lambda variant, load: Costly(clock, costs, variant.plan),
        )  # fmt: skip
        trial.start()
        trial._thread.join()
    return clock.now - began, trial


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
