"""A cell that builds its model gets the plan in the middle of its run: that time is of no step, and is told."""

from __future__ import annotations

import socket
import time
from contextlib import contextmanager

import pytest
import torch

from accel.accelerations.channels_last import ChannelsLast
from accel.measuring.comparison import Interval
from accel.plans.live_plan import LivePlan
from accel.plans.plan import Plan
from accel.processes.channel import Channel
from accel.workers.found_objects import FoundObjects
from accel.workers.messages import EffectRead, Finish, FromWorker, StepToken, ToWorker
from accel.workers.samples import Samples
from accel.workers.stage import Standing
from accel.workers.step_gate import CellIsOver, StepGate
from accel.workers.trial_rows import comparison_of
from accel.workload.capture import CellCapture
from accel.workload.discovery import Discovery
from accel.workload.replica import Replica

MS = 1_000_000
FOLDS = """
import torch
from torch import nn

for fold in range(2):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in range(3):
        passing_ms(10)
        net(torch.ones(2, 3, 8, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
"""


class Clock:
    def __init__(self):
        self.ns = 0

    def pass_ms(self, ms):
        self.ns += ms * MS


@pytest.fixture
def clock(monkeypatch):
    """Time passes where it is said to; putting channels_last on a model takes 300 ms."""
    clock, apply = Clock(), ChannelsLast.apply
    monkeypatch.setattr(time, "perf_counter_ns", lambda: clock.ns)

    @contextmanager
    def slow_apply(entry, replica):
        clock.pass_ms(300 * len(replica.models))
        with apply(entry, replica):
            yield

    monkeypatch.setattr(ChannelsLast, "apply", slow_apply)
    return clock


def steps_in_a_worker(clock, tokens):
    """What a worker answers whose cell builds a model, run again and again."""
    kernel, worker = (
        Channel(end, kind) for end, kind in zip(socket.socketpair(), (FromWorker, ToWorker), strict=True)
    )
    for message in (*tokens, Finish()):
        kernel.send(message)
    found = FoundObjects(Plan.parse("channels_last"), [Replica()])
    gate = StepGate(worker, boundary="optimizer", read_effect=lambda: EffectRead([]))
    with pytest.raises(CellIsOver), found.taken_back(), Discovery(found.take, known=[]), gate:  # noqa: PT012
        gate.wait()
        while True:
            found.run_begins()
            gate.cell_begins()
            exec(FOLDS, {"passing_ms": clock.pass_ms})
    answers = [kernel.receive()[0] for _ in tokens]
    for end in (kernel, worker):
        end.close()
    return answers


def test_a_step_in_which_a_model_got_the_plan_is_as_long_as_others(clock):
    first, second = steps_in_a_worker(clock, [StepToken(1), StepToken(6, settle=2)])
    assert first.wall_ns == [10 * MS]
    assert first.apart_ns == [300 * MS]
    assert second.wall_ns == [10 * MS] * 6
    assert second.apart_ns == [0, 0, 300 * MS, 0, 0, 300 * MS]


class Gpu:
    """Works through what it is given, while the clock of the CPU runs ahead."""

    def __init__(self, monkeypatch, clock):
        self.clock, self.free_at = clock, 0
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Event(self))

    def synchronize(self):
        self.clock.ns = self.free_at = max(self.clock.ns, self.free_at)


class Event:
    def __init__(self, gpu):
        self.gpu = gpu

    def record(self):
        self.reached = max(self.gpu.clock.ns, self.gpu.free_at)

    def elapsed_time(self, later):
        return (later.reached - self.reached) / MS


def test_on_a_gpu_too_whatever_it_still_had_to_do(clock, monkeypatch):
    gpu, pass_ms = Gpu(monkeypatch, clock), clock.pass_ms

    def passing(ms):
        if ms == 10:  # of a step: the CPU needs 10 ms, the GPU 50
            gpu.free_at = max(gpu.free_at, clock.ns) + 50 * MS
        pass_ms(ms)

    clock.pass_ms = passing
    (done,) = steps_in_a_worker(clock, [StepToken(8, settle=2)])
    assert done.wall_ns[2:] == pytest.approx([50 * MS] * 6, rel=0.1)


def test_the_row_of_the_plan_tells_what_applying_it_took():
    def samples(applied_s):
        return Samples(step_ns=[4e7] * 10, steps=10, applied_s=applied_s)

    standing = Standing(
        samples=[samples(0.3)], base_samples=[samples(0.0)], shown=Interval(1.5, 1.4, 1.6, 1, 10),
        verdict="faster",
    )  # fmt: skip
    (note,) = comparison_of(Plan.parse("channels_last"), standing, None, floor=[]).notes
    assert (
        note
        == "applying the plan to what the cell builds took 0.3 s, once each run of the cell: not in the steps"
    )


def test_steps_of_a_profile_in_which_a_kept_plan_was_applied_are_not_timed(clock):
    namespace = {"passing_ms": clock.pass_ms}
    capture = CellCapture(FOLDS, FOLDS, namespace)
    with capture:
        exec(FOLDS, namespace)
    live = LivePlan(capture.finish()[0])
    live.keep(Plan.parse("channels_last"))
    again = CellCapture(FOLDS, FOLDS, namespace)
    with again:
        exec(FOLDS, namespace)
    steps = again.finish()[1].steps.steps
    live.undo()
    assert [step.is_warm_up for step in steps] == [True, False, False] * 2
    assert not any(step.has_compiled for step in steps)
