"""Steps of the profiler's own schedule: each lasts from its mark to the end of its mark, and nothing outside of them counts."""

from __future__ import annotations

import time

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

import accel
from tests.profiling.gpu_trace import GEMM, GpuTrace
from tests.traces.test_ranks import rank_events, write_ranks
from tests.traces.writing import H100, as_torch_writes, span, trace, write

WAITING_S, AFTER_S = 0.03, 0.02


def scheduled(path, *, active, wait=1, warmup=1, work_after=0):
    """A loop that waits before and after each step, traced by a schedule; operations outside of it before the file is written."""

    def written(profiler):
        profiler.export_chrome_trace(str(path))

    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    plan = schedule(wait=wait, warmup=warmup, active=active, repeat=1)
    with profile(activities=[ProfilerActivity.CPU], schedule=plan, on_trace_ready=written) as profiler:
        for _ in range(wait + warmup + active):
            time.sleep(WAITING_S)
            optimizer.zero_grad()
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
            time.sleep(AFTER_S)
            profiler.step()
    return accel.open_trace(path)


@pytest.mark.parametrize("active", [1, 3])
def test_a_step_begins_and_ends_with_its_mark(tmp_path, active):
    report = scheduled(tmp_path / "trace.json", active=active)
    assert (report.steps, report.profiled_steps, report.timing.warmup_steps) == (active, active, 0)
    least = 1000 * (WAITING_S + AFTER_S)
    assert min(report.timing.times_ms) >= least
    assert sum(row.self_ms for row in report.rows) == pytest.approx(sum(report.timing.times_ms) / active)
    assert sum(phase.ms for phase in report.phases) == pytest.approx(sum(report.timing.times_ms) / active)
    waited = {phase.name: phase.ms for phase in report.phases}
    assert waited["the start of the first step → zero_grad"] * active >= 1000 * WAITING_S
    assert waited["optimizer → the end of the last step"] * active >= 1000 * AFTER_S


def test_written_again_and_read_again_the_steps_are_the_same(tmp_path):
    report = scheduled(tmp_path / "trace.json", active=2)
    again = accel.open_trace(report.to_chrome_trace(tmp_path / "again.json"))
    assert [step.ms for step in again.timing.each_step] == pytest.approx(report.timing.times_ms)


def marked(events, *, first, last, step_us=1000.0, tid=100):
    """The profiler's marks round some of the steps of these events."""
    marks = [
        span(f"ProfilerStep#{number + 5}", number * step_us, step_us, cat="user_annotation", tid=tid)
        for number in range(first, last + 1)
    ]
    return [*events, *marks]


def test_what_a_gpu_did_before_the_first_and_after_the_last_step_is_in_no_row(tmp_path):
    """The CPU runs ahead: what each step launches runs while the next one is asked for, or after the last mark."""
    made = GpuTrace()
    for _ in range(4):
        made.launch("aten::mm", 10, GEMM, 600, 1550)
        made.launch("aten::mm", 20, GEMM, 1550, 1590)
        made.end_step()
    events = [event for event in made.events if event.name() != "accel.step"]
    events = [event for event in events if not (event.start_ns() < 1_000_000 and event.device_type() == 0)]
    stepping = [
        span("Optimizer.step#SGD.step", 1000.0 * n + 900, 50.0, cat="user_annotation", tid=1)
        for n in range(4)
    ]
    content = marked([*as_torch_writes(events), *stepping], first=1, last=2, tid=1)
    report = accel.open_trace(write(tmp_path / "t.json", trace(content, deviceProperties=[H100])))
    (gpu,) = report.devices
    assert report.completeness.is_complete
    assert (report.steps, gpu.kernels_per_step) == (
        2,
        2,
    )  # the first step's kernels have no call, the last are not asked for
    assert gpu.step_ms == pytest.approx(1.0)
    assert gpu.busy_share == pytest.approx(0.99)
    assert sum(row.device_ms for row in report.rows) == pytest.approx(0.99)


@pytest.mark.parametrize(("first", "last"), [(3, 3), (2, 4)])
def test_communication_is_that_of_the_marked_steps(tmp_path, first, last):
    events = marked(rank_events(steps=8), first=first, last=last)
    report = accel.open_trace(write_ranks(tmp_path, events, events))
    row = report.rows[0]
    assert (row.steps, row.step_ms) == (last - first + 1, pytest.approx(1.0))
    assert row.communication_ms == pytest.approx(0.43, rel=0.02)
    assert row.exposed_ms == pytest.approx(0.38, rel=0.02)
    assert row.own_ms == pytest.approx(1 - 0.38, rel=0.02)
    assert report.calls[0].calls == last - first + 1


def test_steps_without_marks_begin_with_their_first_phase_in_rows_too(tmp_path):
    events = [span("aten::randn", -5000, 4000.0), *rank_events(steps=1), span("aten::save", 5000, 9000.0)]
    report = accel.open_trace(write(tmp_path / "one.json", trace(events)))
    assert report.steps == 1
    assert sum(row.self_ms for row in report.rows) == pytest.approx(report.step_ms)
    assert "aten::save" not in {row.op for row in report.rows}
