"""Workers that only take their time, on a clock that only their work moves: what a trial decides does not hang on the machine."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

from accel.errors import AccelError
from accel.processes.child_main import Hello
from accel.workers import background_trial, relaunch, stage
from accel.workers.messages import EffectRead, Loaded, StepsDone, StepToken


class MachineClock:
    """Time passes when work is done; an alarm goes off in the middle of it."""

    def __init__(self):
        self.now = 1000.0
        self.alarms = []

    def __call__(self):
        return self.now

    def times_trials(self, patch):
        """Let trials tell the time by this clock, as long as the patch holds."""
        for module in (relaunch, stage):
            patch.setattr(module, "time", SimpleNamespace(monotonic=self))
        patch.setattr(background_trial, "Timer", self.timer)

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
    """Seconds for each thing that a trial waits for; `noise` is a share of a step, `memory` bytes of tensors, `faults` of pages
    come in each step."""

    def __init__(
        self, start=1.0, ship=0.1, compiling=5.0, step=0.05, effect=0.1, noise=0.0, memory=0, faults=0
    ):
        super().__init__(
            start=start, ship=ship, compiling=compiling, step=step, effect=effect, noise=noise, memory=memory, faults=faults
        )  # fmt: skip


class Costly:
    """A worker that does nothing but take its time, until it is ended."""

    def __init__(self, clock, costs, plan, *, batch=16):
        self.clock, self.costs, self.plan, self.batch = clock, costs, plan, batch
        self._noise = Random(str(plan))
        self.label, self.asked, self.is_first, self.is_ended = "", StepToken(1), True, False

    def wait_until_ready(self):
        self._takes(self.costs.start)

    def send(self, message, blob=b"", descriptor=None):
        if self.is_ended:
            raise AccelError("a worker", because="it was ended", do="Nothing.")
        self.asked = message

    def receive(self, kind, *, timeout_s):
        if kind is not StepsDone:
            self._takes(self.costs.effect if kind is EffectRead else self.costs.ship, timeout_s)
            effect = EffectRead([], tensor_bytes=self.costs.memory)
            return effect if kind is EffectRead else Hello() if kind is Hello else Loaded()
        count = self.asked.count
        compiling = self.costs.compiling if self.is_first and self.plan.compiles else 0.0
        self._takes(compiling + count * self.costs.step, timeout_s)
        self.is_first = False
        faults = count * self.costs.faults
        return StepsDone(
            self._step_ns(count), [1.0] * count, [self.batch] * count, faults, apart_ns=[0] * count
        )

    def _step_ns(self, count):
        return [int(1e9 * self.costs.step * self._noise.gauss(1.0, self.costs.noise)) for _ in range(count)]

    def _takes(self, seconds, timeout_s=float("inf")):
        self.clock.work(min(seconds, timeout_s), lambda: self.is_ended)
        if self.is_ended or seconds > timeout_s:
            raise AccelError("a worker", because="it was ended", do="Nothing.")

    def close(self):
        self.is_ended = True
