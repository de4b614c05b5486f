"""Plans that do not warm up in time give up, one after the other, and what is warm is measured; how long all warm up."""

from __future__ import annotations

import math
import threading
import time
from types import SimpleNamespace

import msgspec
import pytest

from accel.errors import AccelError
from accel.plans import Plan
from accel.workers.messages import EffectRead, Load, Loaded, StepsDone, StepToken
from accel.workers.pool import WorkerPool
from accel.workers.relaunch import FEWEST_ROUNDS, LEAST_ROUNDS, Relaunch
from accel.workers.samples import Effort
from accel.workers.variant_worker import Variant
from tests.workers.stand_ins import Costly, Costs

LOAD = Load("", "as the notebook", "train()", "<cell>", "", "/", [], {}, False)
PARCEL = SimpleNamespace(blob=b"", memory=SimpleNamespace(descriptor=None))


class Steady:
    """A group of ranks whose steps all take a millisecond."""

    label = ""

    def __init__(self):
        self.asked = StepToken(1)
        self.patience_s = []

    def wait_until_ready(self):
        pass

    def send(self, message, blob=b"", descriptor=None):
        self.asked = message

    def receive(self, kind, *, timeout_s):
        if kind is StepsDone:
            self.patience_s.append(timeout_s)
            count = self.asked.count
            return StepsDone([10_000] * count, [1.0] * count, [16] * count, 0)
        return EffectRead([]) if kind is EffectRead else Loaded()

    def close(self):
        pass


class NeverWarm(Steady):
    """Compiles for ever: whoever waits for it has waited in vain."""

    def receive(self, kind, *, timeout_s):
        if kind is not StepsDone:
            return super().receive(kind, timeout_s=timeout_s)
        self.patience_s.append(timeout_s)
        time.sleep(min(timeout_s, 30.0))
        raise AccelError("a step", because="it did not end", do="Wait.")


def measured(workers, until, warm_up=2, load=LOAD, on_round=lambda number: None):
    variants = [Variant(Plan.parse(plan), "as the notebook") for plan in workers]
    relaunch = Relaunch(
        WorkerPool(spares=0), PARCEL, variants, load=load, timeout_s=60.0,
        groups=lambda variant, load: workers[variant.label],
    )  # fmt: skip
    with relaunch:
        effort = Effort(warm_up=warm_up)
        return relaunch.measure(
            effort, stop=threading.Event(), deadline=until, give_up_at=until, on_round=on_round
        )


def test_of_two_plans_that_compile_too_long_the_second_gives_up_at_once():
    late = ["compile_model", 'compile_model(mode="max-autotune")']
    workers = {"baseline": Steady(), "channels_last": Steady()} | {plan: NeverWarm() for plan in late}
    samples = measured(workers, time.monotonic() + 15.0)
    waits_s = [each for plan in late for each in workers[plan].patience_s]
    assert len(waits_s) <= 1
    assert all(each < 15.0 for each in waits_s)
    assert all("--budget-s" in str(samples[plan].error) for plan in late)
    assert all(len(samples[label].step_ns) >= FEWEST_ROUNDS for label in ("baseline", "channels_last"))


def test_without_a_budget_nobody_gives_up():
    workers = {plan: Steady() for plan in ("baseline", "channels_last", "compile_model")}
    assert not any(own.error for own in measured(workers, math.inf).values())
    waits_s = [each for worker in workers.values() for each in worker.patience_s]
    assert waits_s
    assert all(60.0 <= each < math.inf for each in waits_s)


def costly(clock, *plans, kind=Costly, **costs):
    return {plan: kind(clock, Costs(**costs), Plan.parse(plan)) for plan in plans}


@pytest.mark.parametrize(
    ("plan", "pass_steps", "budget_s", "steps"),
    [
        ("cache_dataset", 40, 60, 40),
        ("cache_dataset", 40, math.inf, 40),
        ("cache_dataset+channels_last", 40, 60, 40),
        ("cache_dataset", 40, 12, 5),  # 4 s for both are more than a quarter of what is left
        ("cache_dataset", 400, 1000, 5),  # no pass takes 40 s
        ("cache_dataset", 400, math.inf, 5),
        ("cache_dataset", 3, 60, 5),
        ("cache_dataset", 0, 60, 5),  # unknown
        ("channels_last", 40, 60, 5),
    ],
)
def test_a_plan_that_gains_from_the_second_epoch_warms_up_for_a_whole_pass_if_there_is_time(
    clock, monkeypatch, plan, pass_steps, budget_s, steps
):
    clock.times_trials(monkeypatch)
    load = msgspec.structs.replace(LOAD, pass_steps=pass_steps)
    workers = costly(clock, "baseline", plan, step=0.05)
    samples = measured(workers, clock.now + budget_s, warm_up=5, load=load)
    assert [own.warm_up_steps for own in samples.values()] == [steps, steps]
    assert {own.pass_steps for own in samples.values()} == {pass_steps}


class Stalling(Costly):
    """Some turns take `slower` times as long as others; `timed` are the steps that each turn was asked for."""

    stalls, slower = (), 10

    def __init__(self, *given):
        super().__init__(*given)
        self.timed, self.usual = [], self.costs.step

    def receive(self, kind, *, timeout_s):
        if kind is StepsDone and self.asked.settle:
            self.timed.append(self.asked.count - self.asked.settle)
            self.costs.step = self.usual * (self.slower if len(self.timed) in self.stalls else 1)
        return super().receive(kind, timeout_s=timeout_s)


@pytest.mark.parametrize(
    "plans", [("baseline", "channels_last"), ("baseline", "channels_last", "set_to_none")]
)
@pytest.mark.parametrize(("stalls", "slower"), [("one", 1000), ("one", 2000), ("all", 400), ("all", 600)])
def test_turns_get_shorter_where_too_few_rounds_would_fit_and_what_follows_the_rounds_fits_too(
    clock, monkeypatch, plans, stalls, slower
):
    clock.times_trials(monkeypatch)
    workers = costly(clock, *plans, kind=Stalling, step=0.0003)
    for worker in list(workers.values())[: 1 if stalls == "one" else None]:
        worker.stalls, worker.slower = range(1000), slower
    until = clock.now + 60.0
    samples = measured(workers, until)
    assert clock.now < until
    assert workers["baseline"].timed[0] == 32 > workers["baseline"].timed[4]
    assert all(own.usual_step_s == pytest.approx(workers[label].costs.step) for label, own in samples.items())


@pytest.mark.parametrize(("slower", "timed"), [(1, 32), (10, 20), (50, 4), (90, 3), (1000, 1)])
def test_when_the_time_is_up_before_the_second_round_turns_fit_the_steps_and_not_the_time(
    clock, monkeypatch, slower, timed
):
    clock.times_trials(monkeypatch)
    workers = costly(clock, "baseline", "channels_last", kind=Stalling, step=0.0003)
    for worker in workers.values():
        worker.stalls, worker.slower = range(1000), slower
    measured(workers, clock.now)
    assert workers["baseline"].timed == [32, *[timed] * (FEWEST_ROUNDS - 1)]


def test_in_shorter_turns_each_variant_settles_as_long_as_its_own_steps_need(clock, monkeypatch):
    clock.times_trials(monkeypatch)
    workers = costly(clock, "baseline", "channels_last", "set_to_none", kind=Stalling, step=0.0003)
    workers["set_to_none"].stalls, workers["set_to_none"].slower = range(1000), 90
    samples = measured(workers, clock.now + 10.0)
    assert [worker.timed[:3] for worker in workers.values()] == [[32, 32, 32], [32, 32, 32], [32, 3, 3]]
    assert len(samples["baseline"].step_ns) > 2 * FEWEST_ROUNDS


class Hanging(Stalling):
    """Fails in its sixth turn, after 20 s."""

    def receive(self, kind, *, timeout_s):
        if len(self.timed) == 5 and self.asked.settle:
            self.clock.now += 20.0
            raise AccelError("a step", because="it did not end", do="Wait.")
        return super().receive(kind, timeout_s=timeout_s)


def test_the_time_of_a_variant_that_fails_does_not_end_the_rounds_of_the_others(clock, monkeypatch):
    clock.times_trials(monkeypatch)
    workers = costly(clock, "baseline", "channels_last", kind=Stalling, step=0.0003, noise=0.5)
    workers |= costly(clock, "set_to_none", kind=Hanging, step=0.0003)
    samples = measured(workers, clock.now + 40.0)
    assert samples["set_to_none"].error is not None
    assert len(samples["baseline"].step_ns) == LEAST_ROUNDS


@pytest.mark.parametrize("left_s", [25.0, 60.0, math.inf])
def test_turns_keep_their_length_if_enough_rounds_fit(clock, monkeypatch, left_s):
    clock.times_trials(monkeypatch)
    workers = costly(clock, "baseline", "channels_last", kind=Stalling, step=0.0003)
    workers["baseline"].stalls, workers["baseline"].slower = (1, 3), 150  # these rounds take 3 s
    measured(workers, clock.now + left_s)
    assert {*workers["baseline"].timed, *workers["channels_last"].timed} == {32}


def test_turns_return_to_full_length_once_steps_are_fast_again(clock, monkeypatch):
    clock.times_trials(monkeypatch)
    workers = costly(clock, "baseline", "channels_last", kind=Stalling, step=0.0003)
    workers["baseline"].stalls, workers["baseline"].slower = (1,), 1000
    measured(workers, clock.now + 60.0)
    first, second, *others = workers["baseline"].timed
    assert second < first == 32 == others[0] == others[-1]


def test_a_round_that_stalls_when_the_time_is_nearly_up_ends_the_relaunch(clock, monkeypatch):
    clock.times_trials(monkeypatch)
    workers, ended = costly(clock, "baseline", "channels_last", kind=Stalling, step=0.0003, noise=0.5), []
    workers["baseline"].stalls, workers["baseline"].slower = (8,), 1000
    measured(workers, clock.now + 3.0, on_round=ended.append)
    assert ended[-1] == 8


@pytest.mark.parametrize(
    ("stalls", "timed"),
    [
        ((), [26] * 5),
        ((1,), [26, 4, 26, 26, 26]),  # the first turn alone tells that steps are long; later ones that it was an exception
        ((4,), [26] * 5),
        ((1, 2, 3, 4, 5), [26, 4, 4, 4, 4]),  # waits that the warm-up does not show
    ],
)  # fmt: skip
def test_turns_of_a_pipeline_are_as_long_as_the_usual_turn_so_far_needs(clock, monkeypatch, stalls, timed):
    clock.times_trials(monkeypatch)
    workers = costly(clock, "baseline", "channels_last", kind=Stalling, step=0.02)
    workers["baseline"].stalls = stalls
    measured(workers, math.inf, load=msgspec.structs.replace(LOAD, makes_ahead=True, loader_workers=2))
    assert [worker.timed[:5] for worker in workers.values()] == [timed, timed]
