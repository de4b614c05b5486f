"""What a block of steps takes, on the CPU and on a GPU that computes while the CPU runs ahead."""

from __future__ import annotations

import socket
import time
import weakref

import pytest
import torch
from torch import nn

from accel.processes.channel import Channel
from accel.workers import step_gate
from accel.workers.messages import (
    EffectRead,
    Finish,
    Finished,
    FromWorker,
    StepsDone,
    StepToken,
    ToWorker,
)
from accel.workers.sample_count import SampleCount
from accel.workers.step_gate import CellIsOver, StepGate

MS = 1_000_000


class Device:
    """Stands for a GPU and for the clock: work that is launched begins when what was launched before is done."""

    def __init__(self, monkeypatch, *, is_used=True):
        self.now = self.free_at = 0
        self.waits = 0
        monkeypatch.setattr(time, "perf_counter_ns", lambda: self.now)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: is_used)
        monkeypatch.setattr(torch.cuda, "synchronize", self.synchronize)
        monkeypatch.setattr(torch.cuda, "Event", lambda enable_timing: Event(self))

    def compute(self, ms):
        self.free_at = max(self.free_at, self.now) + ms * MS

    def synchronize(self):
        self.waits += 1
        self.now = max(self.now, self.free_at)


class Event:
    def __init__(self, device):
        self.device = device

    def record(self):
        self.reached = max(self.device.free_at, self.device.now)

    def elapsed_time(self, later):
        return (later.reached - self.reached) / MS


def blocks_of(tokens, step):
    """What the gate reports for each token, of a cell that calls `step(number)` and then the optimizer."""
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    kernel, worker = socket.socketpair()
    kernel, worker = Channel(kernel, FromWorker), Channel(worker, ToWorker)
    for message in (*tokens, Finish()):
        kernel.send(message)
    gate = StepGate(worker, boundary="optimizer", read_effect=lambda: EffectRead([]))
    with pytest.raises(CellIsOver), gate:  # noqa: PT012
        gate.wait()
        for number in range(1000):
            (weight * number).sum().backward()
            step(number)
            optimizer.step()
    worker.send(Finished())
    done = []
    while isinstance(message := kernel.receive()[0], StepsDone):
        done.append(message)
    for end in (kernel, worker):
        end.close()
    return done


def test_loading_beside_a_gpu_that_computes_costs_nothing(monkeypatch):
    """10 ms to load and 10 ms to compute are steps of 10 ms: while the GPU computes, the next batch is loaded."""
    device = Device(monkeypatch)

    def step(number):
        device.now += 10 * MS
        device.compute(10)

    single, block = blocks_of([StepToken(1), StepToken(9, settle=3)], step)
    assert single.wall_ns == [20 * MS]
    assert block.wall_ns[3:] == [10 * MS] * 6


@pytest.mark.parametrize(("load_ms", "compute_ms", "step_ms"), [(1, 10, 10), (10, 1, 10), (12, 30, 30)])
def test_a_step_takes_as_long_as_the_slower_of_both_sides(monkeypatch, load_ms, compute_ms, step_ms):
    device = Device(monkeypatch)

    def step(number):
        device.now += load_ms * MS
        device.compute(compute_ms)

    (block,) = blocks_of([StepToken(8, settle=2)], step)
    assert block.wall_ns[2:] == [step_ms * MS] * 6


def test_the_gpu_is_waited_for_at_the_end_of_a_block_only(monkeypatch):
    device = Device(monkeypatch)
    blocks_of(
        [StepToken(1), StepToken(20, settle=5), StepToken(20, settle=5)], lambda number: device.compute(3)
    )
    assert device.waits == 3


def test_a_step_in_which_the_gpu_is_first_used_waits_for_it(monkeypatch):
    device = Device(monkeypatch, is_used=False)

    def step(number):
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        device.now += 5 * MS
        device.compute(7)

    first, second = blocks_of([StepToken(1), StepToken(1)], step)
    assert first.wall_ns == second.wall_ns == [12 * MS]


def test_without_a_gpu_every_step_has_its_own_time(monkeypatch):
    device = Device(monkeypatch, is_used=False)

    def step(number):
        device.now += (number + 1) * MS

    first, second = blocks_of([StepToken(2), StepToken(4, settle=2)], step)
    assert first.wall_ns == [1 * MS, 2 * MS]
    assert second.wall_ns == [3 * MS, 4 * MS, 5 * MS, 6 * MS]
    assert device.waits == 0


def test_watching_is_no_part_of_a_step(monkeypatch):
    """Reading a loss and counting samples take as long as a tenth of a step of 0.3 ms."""
    device, kept, count = Device(monkeypatch, is_used=False), step_gate._kept, SampleCount.backward

    def slowly(first):
        def watched(*args):
            device.now += 5 * MS
            return first(*args)

        return watched

    monkeypatch.setattr(step_gate, "_kept", slowly(kept))
    monkeypatch.setattr(SampleCount, "backward", slowly(count))

    def step(number):
        device.now += 2 * MS

    (block,) = blocks_of([StepToken(4, settle=1)], step)
    assert block.wall_ns == [2 * MS] * 4


def test_no_tensor_of_a_step_on_the_cpu_outlives_it(monkeypatch):
    """A loss kept until the block ends lies on top of the heap: glibc gave less memory back than under the plain loop."""
    alive = weakref.WeakSet()
    most_alive = []

    def kept(loss):
        alive.add(loss)
        most_alive.append(len(alive))
        return known(loss)

    known = step_gate._kept
    monkeypatch.setattr(step_gate, "_kept", kept)
    monkeypatch.setattr(torch.Tensor, "detach", detached_and_noted(torch.Tensor.detach, alive))
    blocks_of([StepToken(20, settle=1)], lambda number: None)
    assert len(most_alive) == 20
    assert max(most_alive) <= 2, "one loss, and nothing of the steps before"


def detached_and_noted(detach, alive):
    def noted(tensor):
        made = detach(tensor)
        alive.add(made)
        return made

    return noted


def test_losses_are_those_of_their_steps(monkeypatch):
    Device(monkeypatch)
    first, second = blocks_of([StepToken(2), StepToken(3, settle=1)], lambda number: None)
    assert first.losses + second.losses == [0, 1, 2, 3, 4]
