"""Wall seconds against `--budget-s`, on a clock that only the work of stand-in workers moves: 10 % and 3 s over, at the most."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel.accelerations.plan import Plan
from accel.errors import AccelError
from accel.workbench import trial_start
from accel.workbench import workbench as workbench_module
from accel.workers import background_trial, relaunch, stage, time_budget
from accel.workers.messages import EffectRead, Hello, Load, Loaded, Steps, StepsDone
from accel.workers.time_budget import TimeBudget
from accel.workers.trial import Trial, TrialSetting
from tests.workers.conftest import CELL

PLANS = ("channels_last", "compile_model")
LOAD = Load("", "as the notebook", "train()", "<cell>", "", "/", [], {}, False)
CHECKED_S = 0.2  # looking whether anything of the notebook changed


class MachineClock:
    """Time passes when work is done; an alarm goes off in the middle of it."""

    def __init__(self):
        self.now = 1000.0
        self.alarms = []

    def __call__(self):
        return self.now

    def timer(self, seconds, ring):
        """What stands for threading.Timer."""
        alarm = SimpleNamespace(at=self.now + seconds, ring=ring, daemon=False)
        alarm.start, alarm.cancel = lambda: self.alarms.append(alarm), self.alarms.clear
        return alarm

    def work(self, seconds, is_ended):
        """Pass the time of some work, or as much of it as goes by until an alarm has ended the worker."""
        until = self.now + seconds
        for alarm in [each for each in self.alarms if each.at <= until]:
            self.alarms.remove(alarm)
            self.now = max(self.now, alarm.at)
            alarm.ring()
            if is_ended():
                return
        self.now = until


class Costs(SimpleNamespace):
    """Seconds that a machine takes for each thing that a trial waits for."""

    def __init__(self, start=1.0, ship=0.1, compiling=5.0, step=0.05, effect=0.1):
        super().__init__(start=start, ship=ship, compiling=compiling, step=step, effect=effect)


class Costly:
    """A worker that does nothing but take its time, until it is ended."""

    def __init__(self, clock, costs, plan):
        self.clock, self.costs, self.plan = clock, costs, plan
        self.label, self.asked, self.is_first, self.is_ended = "", Steps(1), True, False

    def wait_until_ready(self):
        self._takes(self.costs.start)

    def send(self, message, blob=b"", descriptor=None):
        if self.is_ended:
            raise AccelError("a worker", because="it was ended", do="Nothing.")
        self.asked = message

    def receive(self, kind, *, timeout_s):
        if kind is not StepsDone:
            self._takes(self.costs.effect if kind is EffectRead else self.costs.ship, timeout_s)
            return EffectRead([]) if kind is EffectRead else Hello() if kind is Hello else Loaded()
        count = self.asked.count
        compiling = self.costs.compiling if self.is_first and "compile" in self.plan else 0.0
        self._takes(compiling + count * self.costs.step, timeout_s)
        self.is_first = False
        return StepsDone([int(1e9 * self.costs.step)] * count, [1.0] * count, [16] * count, 0, 0)

    def _takes(self, seconds, timeout_s=float("inf")):
        self.clock.work(min(seconds, timeout_s), lambda: self.is_ended)
        if self.is_ended or seconds > timeout_s:
            raise AccelError("a worker", because="it was ended", do="Nothing.")

    def close(self):
        self.is_ended = True


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
        for module in (relaunch, stage):
            patch.setattr(module, "time", SimpleNamespace(monotonic=clock))
        patch.setattr(background_trial, "Timer", clock.timer)

        def checked():
            clock.now += CHECKED_S
            return ""

        trial = Trial(
            [Plan.parse(text) for text in PLANS], parcel, LOAD, Pool(), setting, check=checked,
            groups=lambda variant, load: Costly(clock, costs, variant.plan),
        )  # fmt: skip
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
