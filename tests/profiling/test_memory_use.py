"""Bytes over the profiled steps, from the profiler's own events."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import nn

from accel.profiling import memory_use
from accel.profiling.kineto_columns import read_columns
from accel.profiling.memory_use import MEMORY, enclosing, read_memory_use
from accel.profiling.profiled_events import read_events
from tests.profiling.conftest import Loop
from tests.profiling.recorded_event import RecordedEvent

MIB = 2**20


@dataclass
class Allocation(RecordedEvent):
    """A [memory] event as torch writes it; negative bytes are a free."""

    count: int = 0

    def nbytes(self):
        return self.count

    def activity_type(self):
        return "cpu_instant_event"


def allocation(time, count, *, device=0, index=0):
    return Allocation(MEMORY, time, 0, on_device=device, index=index, count=count)


def read(window):
    return read_memory_use(window.events, read_events(read_columns(window.events), warmup=window.warmup))


class OneBigTensor(nn.Module):
    """Forward holds 4 MiB for a moment, in one of its modules."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(16, 10)
        self.waste = Waste()

    def forward(self, x):
        return self.waste(self.body(x))


class Waste(nn.Module):
    def forward(self, x):
        torch.empty(MIB).fill_(1.0)
        return x


def test_the_peak_is_found_with_its_phase_and_module(profiled):
    (use,) = read(profiled(lambda: Loop(OneBigTensor(), shape=(4, 16)).run(9), memory=True))
    assert use.device == "cpu"
    assert use.peak_bytes == pytest.approx(4 * MIB, rel=0.01)
    assert (use.peak_phase, use.peak_module) == ("forward", "waste")
    assert use.peak_by[0] == ("forward", "waste", use.peak_bytes)
    assert use.allocator == ()


def test_what_is_allocated_is_counted_per_step(profiled):
    (use,) = read(profiled(lambda: Loop(OneBigTensor(), shape=(4, 16)).run(9), memory=True))
    assert 4 * MIB <= use.allocated_bytes_per_step < 5 * MIB
    assert 5 < use.allocations_per_step < 500


def test_the_curve_holds_the_peak_and_comes_back_down(loop, profiled):
    (use,) = read(profiled(lambda: loop.run(9), memory=True))
    assert max(point.bytes for point in use.points) == use.peak_bytes
    assert use.points[-1].bytes < use.peak_bytes
    assert [point.ms for point in use.points] == sorted(point.ms for point in use.points)
    assert {point.phase for point in use.points} >= {"forward", "backward", "optimizer"}
    assert {"conv1", "conv2", "head"} <= {point.module for point in use.points}


def test_a_long_curve_is_thinned_out_without_losing_its_peak(loop, profiled, monkeypatch):
    window = profiled(lambda: loop.run(9), memory=True)
    (full,) = read(window)
    monkeypatch.setattr(memory_use, "MOST_POINTS", 20)
    (thin,) = read(window)
    assert len(thin.points) <= 20 < len(full.points)
    assert max(point.bytes for point in thin.points) == full.peak_bytes == thin.peak_bytes
    assert set(thin.points) <= set(full.points)


def test_without_memory_there_is_no_curve(loop, profiled):
    assert read(profiled(lambda: loop.run(9))) == ()
    assert read_memory_use([], None) == ()


TWO_DEVICES = [
    RecordedEvent("accel::forward", 0, 100, number=1),
    RecordedEvent("accel.module::layer", 10, 80, number=2),
    allocation(20, 100),
    allocation(21, 1000, device=1),
    RecordedEvent("aten::mm", 30, 20, number=3),
    allocation(35, 4000, device=1),
    allocation(60, -4000, device=1),
    allocation(61, 70, device=1, index=1),
    allocation(95, 50),
    RecordedEvent("accel::backward", 200, 100, number=4),
    allocation(150, 7),
]


def test_each_device_has_a_curve_of_its_own():
    uses = {use.device: use for use in read_memory_use(TWO_DEVICES, read_events(read_columns(TWO_DEVICES)))}
    assert set(uses) == {"cpu", "cuda:0", "cuda:1"}
    assert [point.bytes for point in uses["cuda:0"].points] == [1000, 5000, 1000]
    assert (uses["cuda:0"].peak_bytes, uses["cuda:0"].peak_module) == (5000, "layer")
    assert uses["cuda:1"].peak_bytes == 70
    assert [(p.bytes, p.phase, p.module) for p in uses["cpu"].points] == [
        (100, "forward", "layer"), (150, "forward", ""), (157, "forward → backward", ""),
    ]  # fmt: skip


def test_a_users_own_range_around_the_step_takes_no_memory_from_the_phases():
    trace = [
        RecordedEvent("my step", 0, 500, number=9, kind="user_annotation"),
        RecordedEvent("accel::forward", 10, 90, number=1),
        allocation(150, 100),
        RecordedEvent("accel::backward", 200, 200, number=2),
        allocation(450, -100),
    ]
    (use,) = read_memory_use(trace, read_events(read_columns(trace)))
    assert [point.phase for point in use.points] == ["forward → backward", "backward → the end of the cell"]


def test_the_sentence_says_where_the_peak_is():
    told = [str(use) for use in read_memory_use(TWO_DEVICES, read_events(read_columns(TWO_DEVICES)))]
    assert "cuda:0: peak 4.88 KiB above the start of the step, in forward of layer" in told[1]


def test_a_moment_is_enclosed_by_the_innermost_event_of_its_thread():
    import numpy as np

    columns = read_columns(TWO_DEVICES)
    at = enclosing(columns, np.array([5, 35, 55, 150, 250, 35]), np.array([1, 1, 1, 1, 1, 2]))
    names = [columns.names[columns.name[row]] if row >= 0 else "" for row in at]
    assert names == ["accel::forward", "aten::mm", "accel.module::layer", "", "accel::backward", ""]


@pytest.mark.parametrize("runs", [1, 2])
def test_nothing_of_the_profilers_is_printed_while_memory_is_recorded(loop, profiled, capfd, runs):
    for _ in range(runs):
        profiled(lambda: loop.run(9), memory=True)
    assert "Memory block of unknown size" not in capfd.readouterr().err
