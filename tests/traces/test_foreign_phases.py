"""Phases, steps and modules of traces that accel did not record."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule

from accel.traces.trace_profile import read_trace
from tests.traces.writing import span, trace, training_events, write


def times(report):
    """Phase → µs a step, without gaps."""
    return {phase.name: round(phase.ms * 1e3) for phase in report.phases if not phase.is_gap}


def test_torchs_own_names_tell_phases_steps_and_gaps(tmp_path):
    report = read_trace(write(tmp_path / "t.json", trace(training_events(6))))
    assert times(report) == {"backward": 350, "forward": 290, "data": 100, "optimizer": 80}
    gaps = {phase.name: round(phase.ms * 1e3) for phase in report.phases if phase.is_gap}
    assert gaps == {
        "optimizer → data": 100,
        "forward → backward": 50,
        "backward → optimizer": 20,
        "data → forward": 10,
    }
    assert (report.steps, report.timing.warmup_steps) == (4, 2)
    assert report.step_ms == pytest.approx(1.0)
    assert sum(phase.share for phase in report.phases) == pytest.approx(1)


def test_rows_add_up_to_the_steps_and_name_the_phase(tmp_path):
    report = read_trace(write(tmp_path / "t.json", trace(training_events(6))))
    found = {(row.phase, row.op): round(row.self_ms * 1e3) for row in report.rows}
    assert found["forward", "aten::addmm"] == 120
    assert found["backward", "aten::mm"] == 200
    assert found["optimizer", "aten::add_"] == 50
    assert found["forward", "Python code"] == 50
    assert sum(row.self_ms for row in report.rows) == pytest.approx(1.0)


def real_loop(steps):
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    data = torch.utils.data.TensorDataset(torch.randn(4 * steps, 8), torch.randint(0, 4, (4 * steps,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in torch.utils.data.DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
        yield


def test_a_real_trace_without_any_mark_of_ours_has_all_phases(tmp_path):
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        for _ in real_loop(6):
            pass
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    report = read_trace(path)
    assert set(times(report)) == {"data", "zero_grad", "forward", "backward", "optimizer"}
    assert (report.steps, report.profiled_steps) == (4, 4)
    rows = {(row.phase, row.op): row.calls for row in report.rows}
    assert rows["forward", "aten::addmm"] == 2
    assert rows["backward", "aten::mm"] == 3
    assert report.damage == ()


def test_frames_of_modules_name_modules_forward_and_backward(tmp_path):
    with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
        for _ in real_loop(5):
            pass
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    report = read_trace(path)
    modules = {row.module for row in report.rows if row.op == "aten::addmm" and row.phase == "forward"}
    assert modules == {"Linear_0", "Linear_1"}
    assert {row.module for row in report.rows if row.op == "aten::mm" and row.phase == "backward"} == modules


def test_the_profilers_own_steps_are_the_steps_and_a_schedules_warm_up_is_enough(tmp_path):
    path = tmp_path / "trace.json"
    with profile(
        activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=2, active=3),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
    ) as profiler:  # fmt: skip
        for _ in real_loop(6):
            profiler.step()
    report = read_trace(path)
    assert (report.steps, report.timing.warmup_steps) == (3, 0)
    assert not any(row.op.startswith("ProfilerStep") for row in report.rows)


def test_forward_alone_is_forward_and_has_no_steps(tmp_path):
    model = nn.Linear(4, 4)
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        model(torch.randn(2, 4))
    path = tmp_path / "trace.json"
    profiler.export_chrome_trace(str(path))
    report = read_trace(path)
    assert report.steps == 0
    assert "forward" in times(report)
    assert "trace" in str(report).splitlines()[0]
    assert "the cell" not in str(report)


def test_backward_on_the_devices_own_thread_is_backward(tmp_path):
    events = []
    for at in range(0, 5000, 1000):
        events += [
            span("aten::mm", at + 100, 50.0, sequence=at, forward=0),
            span("autograd::engine::evaluate_function: MmBackward0", at + 200, 300.0, tid=200, sequence=at, forward=1),
            span("Optimizer.step#SGD.step", at + 600, 100.0, cat="user_annotation"),
        ]  # fmt: skip
    report = read_trace(write(tmp_path / "t.json", trace(events)))
    assert times(report) == {"backward": 300, "optimizer": 100, "forward": 50}
    assert {row.phase for row in report.rows if row.op.startswith("autograd")} == {"backward"}


NODE = "autograd::engine::evaluate_function: MmBackward0"
NUMBERED = {"sequence": 1, "forward": 0}
WORKER = span("aten::copy_", 0, 4900.0, tid=300)


@pytest.mark.parametrize(
    ("node", "forward", "backward", "more"),
    [
        (NODE, NUMBERED, {"sequence": 1, "forward": 1}, []),
        (NODE, NUMBERED, {"sequence": 1, "forward": 1}, [WORKER]),
        (NODE, NUMBERED, {"sequence": 1}, []),
        (NODE, {}, {}, []),
        ("MmBackward", {}, {}, []),
        ("torch::autograd::CopyBackwards", {}, {}, []),
    ],
    ids=[
        "told by nodes",
        "next to a worker",
        "told by operations",
        "no numbers",
        "before torch 1.8",
        "in C++",
    ],
)
def test_without_optimizer_loader_and_marks_the_thread_of_backward_is_not_the_loops(
    tmp_path, node, forward, backward, more
):
    events = [*more]
    for at in range(0, 5000, 1000):
        events += [span("aten::mm", at, 100.0, **forward), span(node, at + 150, 750.0, tid=200, **backward)]
    report = read_trace(write(tmp_path / "t.json", trace(events)))
    assert times(report) == {"backward": 750, "forward": 100}
    assert report.steps == 3


@pytest.mark.parametrize("tid", [100, 200], ids=["one thread", "backward on its own"])
@pytest.mark.parametrize("passes", [1, 2])
def test_of_a_step_with_a_closure_only_the_update_is_the_optimizers(tmp_path, passes, tid):
    events = []
    for at in range(0, 6000, 1000):
        events += [
            span("Optimizer.step#LBFGS.step", at + 50, 900.0, cat="user_annotation"),
            span("Optimizer.zero_grad#LBFGS.zero_grad", at + 60, 30.0, cat="user_annotation"),
            span("aten::add_", at + 720, 160.0),
        ]
        for begin in range(at + 100, at + 100 + 300 * passes, 300):
            events += [
                span("aten::mm", begin, 100.0, sequence=begin, forward=0),
                span(NODE, begin + 110, 180.0, tid=tid, sequence=begin, forward=1),
            ]
    report = read_trace(write(tmp_path / "t.json", trace(events)))
    assert times(report) == {
        "zero_grad": 30, "forward": 100 * passes, "backward": 180 * passes, "optimizer": 160
    }  # fmt: skip
    assert (report.steps, report.step_ms) == (4, pytest.approx(1.0))
    assert {row.phase for row in report.rows if row.op == "aten::add_"} == {"optimizer"}


def test_a_copy_to_the_device_is_a_phase_of_its_own(tmp_path):
    events = [
        span("aten::to", 0, 50.0, external=1),
        span("cudaMemcpyAsync", 10, 20.0, cat="cuda_runtime", external=1, correlation=9),
        span("Memcpy HtoD (Pageable -> Device)", 15, 60.0, cat="gpu_memcpy", tid=7, pid=0, external=1, correlation=9,
             device=0, stream=7, bytes=4096),
        span("aten::mm", 100, 20.0, sequence=3, forward=0),
    ]  # fmt: skip
    report = read_trace(write(tmp_path / "t.json", trace(events)))
    assert set(times(report)) == {"copy", "forward"}
    assert report.devices[0].copies[0].memory == "pageable"


def test_what_follows_the_optimizer_is_no_forward(tmp_path):
    events = training_events(6)
    events += [span("aten::item", 1000.0 * step + 920, 30.0) for step in range(6)]
    report = read_trace(write(tmp_path / "t.json", trace(events)))
    assert {row.phase for row in report.rows if row.op == "aten::item"} == {"optimizer → data"}


def test_two_optimizers_take_one_step_together(tmp_path):
    events = training_events(6)
    events += [
        span("Optimizer.step#SGD.step", 1000.0 * step + 910, 30.0, cat="user_annotation") for step in range(6)
    ]
    assert read_trace(write(tmp_path / "t.json", trace(events))).steps == 4
    apart = [
        *events,
        *(span("aten::mm", 1000.0 * s + 905, 1.0, sequence=900 + s, forward=0) for s in range(6)),
        *(
            span(
                "autograd::engine::evaluate_function: MmBackward0",
                1000.0 * s + 907,
                1.0,
                sequence=900 + s,
                forward=1,
            )
            for s in range(6)
        ),
    ]
    assert read_trace(write(tmp_path / "apart.json", trace(apart))).steps == 4


def test_a_trace_of_the_time_before_categories_is_read(tmp_path):
    events = [{key: value for key, value in event.items() if key != "cat"} for event in training_events()]
    report = read_trace(write(tmp_path / "old.json", [{**event, "pid": "CPU functions"} for event in events]))
    assert any(row.op == "aten::addmm" for row in report.rows)


@pytest.mark.parametrize("kind", ["Operator", "operator"])
def test_categories_of_torch_1_8_are_known(tmp_path, kind):
    old = [
        {**event, "cat": kind if event["cat"] == "cpu_op" else event["cat"]} for event in training_events()
    ]
    new = read_trace(write(tmp_path / "new.json", trace(training_events())))
    assert read_trace(write(tmp_path / "old.json", trace(old))).rows == new.rows
