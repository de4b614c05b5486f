"""Wall seconds against `--budget-s`, on a clock that only the work of stand-in workers moves: 10 % and 3 s over, at the most."""

from __future__ import annotations

from collections import Counter
from functools import partial
from threading import Event
from types import SimpleNamespace

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.errors import AccelError
from accel.measuring.interval import STEADY_ALONE
from accel.plans.plan import Plan
from accel.workbench import trial_start
from accel.workbench import workbench as workbench_module
from accel.workers import time_budget
from accel.workers.messages import Load, StepsDone
from accel.workers.pool import WorkerPool
from accel.workers.relaunch import Relaunch
from accel.workers.relaunch_estimate import QUIET, MachineLoad
from accel.workers.samples import Effort
from accel.workers.stage import Stage, StagePlan
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


def seconds_of(
    costs, budget_s, *, packing_s=0.0, plans=PLANS, busy=QUIET, failing=(), costs_of=None, load=LOAD, has_stages=True
):  # fmt: skip
    """A trial on such a machine: the seconds from the command to its answer, and the trial.

    `costs_of` gives the costs of a variant, or None for one that fails.
    """
    clock = MachineClock()
    began = clock.now
    budget = TimeBudget(budget_s, clock=clock)
    clock.now += packing_s
    setting = TrialSetting(
        "a machine", (), "as the notebook", not has_stages, True, budget=budget, step_s=costs.step, load=busy
    )
    parcel = SimpleNamespace(blob=b"", memory=SimpleNamespace(descriptor=None), close=lambda: None)
    with pytest.MonkeyPatch.context() as patch:
        clock.times_trials(patch)

        def checked():
            clock.now += CHECKED_S
            return ""

        def worker(variant, load):
            own = costs_of(variant) if costs_of else costs
            kind = Broken if own is None or str(variant.plan) in failing else Costly
            return kind(clock, own or costs, variant.plan)

        trial = Trial(
            [Plan.parse(text) for text in plans], parcel, load, Pool(), setting, check=checked, groups=worker
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
    assert ("other programs keep this machine busy" in said) is bool(left)
    assert all(plan in said for plan in left)


def test_time_that_is_left_goes_to_the_plans_that_were_left_out():
    _, trial = seconds_of(BUSY_COSTS, 200, plans=THREE, busy=BUSY)
    assert [plan for plan in THREE if trial.ladder[plan].shown] == [*THREE]
    assert "not measured" not in "\n".join(trial.ladder.notes)


MANY = (*THREE, "autocast", "steady_allocator")


@pytest.mark.parametrize(("plans", "budget_s"), [(MANY[:4], 80), (MANY, 100)])
def test_no_relaunch_of_the_first_plans_takes_the_time_of_those_that_were_left_out(plans, budget_s):
    costs = Costs(start=3.0, ship=0.3, step=0.1, noise=0.05)
    took_s, trial = seconds_of(costs, budget_s, plans=plans, busy=BUSY)
    assert took_s <= allowed_s(budget_s)
    assert [plan for plan in plans if trial.ladder[plan].shown] == [*plans]


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


def gaining(faults=0, **gains):
    """Costs of the baseline, and of a plan that gains as much as is listed for each relaunch, the last from then on."""
    relaunches = Counter()

    def costs_of(variant):
        stage = "steady" if variant.allocator == "steady" else "notebook"
        relaunches[stage] += not variant.plan
        listed = gains.get(stage, [1.0])
        gain = listed[min(relaunches[stage], len(listed)) - 1] if variant.plan else 1.0
        return Costs(step=0.05 / gain, noise=0.01, faults=faults)

    return costs_of


def held_and_fresh(*steady):
    """Faster in fresh processes, which map memory in each step; as much as this where memory is held."""
    return gaining(faults=2000, steady=steady, notebook=[1.5])


OPEN_HEAP = (1.06, 0.99, 1.07, 0.99, 1.04)  # after its usual four relaunches 1 is within the interval


@pytest.mark.parametrize(
    ("budget_s", "verdict"), [(None, "undecided"), (60, "undecided"), (90, "faster"), (200, "faster")]
)
def test_time_that_is_left_tells_whether_a_plan_is_slower_where_memory_is_held(budget_s, verdict):
    took_s, trial = seconds_of(Costs(), budget_s, plans=PLANS[:1], costs_of=held_and_fresh(*OPEN_HEAP))
    row, steady = trial.ladder[PLANS[0]], trial._stages["steady"]
    assert row.verdict == verdict
    assert (row.open_because, row.time_decides) == (("heap", True) if verdict == "undecided" else ("", False))
    assert (steady.relaunches > 4) is (verdict == "faster")
    assert took_s <= allowed_s(budget_s or 240)


def test_a_plan_that_is_likely_to_be_slower_where_memory_is_held_takes_no_more_time():
    took_s, trial = seconds_of(Costs(), 300, plans=PLANS[:1], costs_of=held_and_fresh(1.04, 0.94, 1.03, 0.93))
    assert (trial.ladder[PLANS[0]].open_because, trial._stages["steady"].relaunches) == ("heap", 4)
    assert took_s < 150


@pytest.mark.parametrize("broken", [str(Plan()), PLANS[0]])
def test_a_relaunch_that_fails_in_the_time_that_is_left_takes_nothing_from_what_is_known(broken):
    usual, started = held_and_fresh(*OPEN_HEAP), Counter()

    def costs_of(variant):
        label, is_steady = str(variant.plan), variant.allocator == "steady"
        started[label] += is_steady
        costs = usual(variant)
        return None if is_steady and label == broken and started[label] > 4 else costs

    took_s, trial = seconds_of(Costs(), 200, plans=PLANS[:1], costs_of=costs_of)
    row = trial.ladder[PLANS[0]]
    assert started[broken] > 4
    assert (trial.state, row.state, row.error) == ("done", "done", "")
    assert (row.verdict, row.open_because) == ("undecided", "heap")
    assert took_s <= allowed_s(200)


@pytest.mark.parametrize(("budget_s", "verdict"), [(None, "undecided"), (60, "undecided"), (200, "faster")])
def test_time_that_is_left_tells_whether_starting_workers_costs_more_than_they_gain(budget_s, verdict):
    plan = "loader_workers(n=2)"  # starts in 5 % of an epoch of two seconds
    took_s, trial = seconds_of(
        Costs(), budget_s, plans=[plan], costs_of=gaining(notebook=(1.08, 1.06, 1.10, 1.06, 1.08)), has_stages=False,
        load=msgspec.structs.replace(LOAD, epoch_steps=40, pass_steps=40, makes_ahead=True),
    )  # fmt: skip
    row = trial.ladder.rows[0]
    assert (row.verdict, row.open_because) == (verdict, "starting" if verdict == "undecided" else "")
    assert took_s <= allowed_s(budget_s or 240)


@pytest.mark.parametrize(("faults", "verdict"), [(0, "faster"), (400_000, "undecided")])
def test_a_trial_without_time_for_memory_that_is_held_does_not_claim_what_page_faults_may_be_all_of(
    faults, verdict
):
    def costs_of(variant):
        return Costs(step=0.3 if variant.plan else 0.6, noise=0.01, faults=0 if variant.plan else faults)

    _, trial = seconds_of(Costs(step=0.6), 40, plans=PLANS[:1], costs_of=costs_of)
    row = trial.ladder[PLANS[0]]
    assert "steady" not in trial._stages
    assert (row.verdict, row.open_because) == (verdict, "heap not measured" if faults else "")


@pytest.mark.parametrize(
    ("held_s", "verdict", "open_because"), [(0.15, "faster", ""), (0.25, "undecided", "heap")]
)
def test_time_that_is_left_measures_memory_that_is_held_after_all(held_s, verdict, open_because):
    def costs_of(variant):
        if variant.allocator == "steady":
            return Costs(step=held_s if variant.plan else 0.2, noise=0.01)
        return Costs(step=0.3 if variant.plan else 0.6, noise=0.01, faults=0 if variant.plan else 400_000)

    took_s, trial = seconds_of(Costs(step=0.6), 50, plans=PLANS[:1], costs_of=costs_of)
    row = trial.ladder[PLANS[0]]
    assert [*trial._stages] == ["notebook", "steady"]
    assert (row.verdict, row.open_because) == (verdict, open_because)
    assert took_s <= allowed_s(50)


@pytest.mark.parametrize("broken", [str(Plan()), PLANS[0]])
def test_what_was_measured_stays_if_memory_that_is_held_cannot_be_measured(broken):
    def costs_of(variant):
        if variant.allocator == "steady":
            return None if str(variant.plan) == broken else Costs(step=0.2, noise=0.01)
        return Costs(step=0.3 if variant.plan else 0.6, noise=0.01, faults=0 if variant.plan else 400_000)

    took_s, trial = seconds_of(Costs(step=0.6), 50, plans=PLANS[:1], costs_of=costs_of)
    row = trial.ladder[PLANS[0]]
    assert "steady" in trial._stages
    assert (trial.state, row.state, row.error) == ("done", "done", "")
    assert (row.verdict, row.open_because) == ("undecided", "heap not measured")
    assert took_s <= allowed_s(50)


def test_a_plan_that_crashed_is_failed_whatever_the_time_that_is_left_decides():
    usual, started = held_and_fresh(*OPEN_HEAP), Counter()

    def costs_of(variant):
        label, is_steady = str(variant.plan), variant.allocator == "steady"
        started[label] += is_steady
        costs = usual(variant)
        return None if is_steady and label == "set_to_none" and started[label] > 1 else costs

    took_s, trial = seconds_of(Costs(), 200, plans=[PLANS[0], "set_to_none"], costs_of=costs_of)
    assert started["set_to_none"] == 2, "it is not raced"
    assert trial.ladder["set_to_none"].state == "failed"
    assert trial.ladder[PLANS[0]].shown
    assert took_s <= allowed_s(200)


@pytest.mark.parametrize(("gain", "verdict"), [(2.0, "faster"), (0.7, "slower")])
def test_a_stage_that_was_cut_short_says_what_is_left_after_the_plans_that_it_took_on(
    clock, monkeypatch, gain, verdict
):
    clock.times_trials(monkeypatch)
    gains = {PLANS[0]: 1.03, "set_to_none": gain}
    first, other = map(Plan.parse, gains)

    def opened(variants):
        return Relaunch(
            WorkerPool(spares=0), SimpleNamespace(blob=b"", memory=SimpleNamespace(descriptor=None)), variants, load=LOAD,
            timeout_s=60.0, groups=lambda variant, load: Costly(
                clock, Costs(step=0.05 / gains.get(variant.label, 1.0), noise=0.05), variant.plan
            ),
        )  # fmt: skip

    stage = Stage(
        StagePlan("notebook", "as the notebook", (first,), STEADY_ALONE, 60, Effort(), is_headline=False), opened,
        stop=Event(), on_change=lambda: None, deadline=clock.now + 12.0, measures_floor=False,
    )  # fmt: skip
    stage.run()
    assert stage.is_cut_short
    stage.take_on([other], until := clock.now + 40.0)
    assert stage.standings[str(other)].verdict == verdict
    assert (stage.is_cut_short, stage.left_s) == (True, pytest.approx(until - clock.now))
    assert stage.left_s > 1.0
