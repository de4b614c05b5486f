"""Plans that do not warm up in time give up, one after the other, and what is warm is measured."""

from __future__ import annotations

import math
import threading
import time
from types import SimpleNamespace

from accel.errors import AccelError
from accel.plans import Plan
from accel.workers.messages import EffectRead, Load, Loaded, StepsDone, StepToken
from accel.workers.pool import WorkerPool
from accel.workers.relaunch import FEWEST_ROUNDS, Relaunch
from accel.workers.samples import Effort
from accel.workers.variant_worker import Variant

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


def measured(workers, until):
    variants = [Variant(Plan.parse(plan), "as the notebook") for plan in workers]
    relaunch = Relaunch(
        WorkerPool(spares=0), PARCEL, variants, load=LOAD, timeout_s=60.0,
        groups=lambda variant, load: workers[variant.label],
    )  # fmt: skip
    with relaunch:
        return relaunch.measure(Effort(warm_up=2), stop=threading.Event(), deadline=until, give_up_at=until)


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
