"""Events laid out in rows and lanes: nothing lost, nothing on top of each other, the right names in the right place."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from accel.profiling.kineto_columns import read_columns
from accel.profiling.profiled_events import read_events
from accel.profiling.timeline import read_timeline
from accel.workbench import Workbench
from tests.profiling.conftest import SmallCNN
from tests.profiling.recorded_event import RecordedEvent

MS = 1_000_000


def event(name, start_ms, lasts_ms, **more):
    return RecordedEvent(name, int(start_ms * MS), int(lasts_ms * MS), **more)


def row(timeline, label):
    (found,) = [row for row in timeline.rows if row.label == label]
    return found


def labels(timeline, lane):
    return [timeline.names[n] for n in timeline.name[lane.first : lane.end]]


@pytest.fixture
def timeline(real_profile):
    return read_timeline(real_profile.events)


def test_every_slice_is_in_one_lane(timeline):
    lanes = [lane for row in timeline.rows for lane in row.lanes]
    assert [lane.first for lane in lanes] == [0, *(lane.end for lane in lanes[:-1])]
    assert lanes[-1].end == len(timeline)


def test_slices_of_a_lane_are_in_order_and_do_not_overlap(timeline):
    for shown in timeline.rows:
        for lane in shown.lanes:
            starts = timeline.start_ms[lane.first : lane.end]
            ends = starts + timeline.duration_ms[lane.first : lane.end]
            assert (np.diff(starts) >= 0).all()
            assert (ends[:-1] <= starts[1:] + 1e-6).all()


def test_an_operation_lies_under_the_one_that_called_it(real_profile, timeline):
    columns = real_profile.events.columns
    lanes = row(timeline, "Training thread").lanes
    depth = {}
    for number, lane in enumerate(lanes):
        depth |= dict.fromkeys(timeline.event[lane.first : lane.end].tolist(), number)
    nested = [i for i in depth if columns.parent[i] in depth]
    assert len(nested) > 100
    assert all(depth[i] > depth[int(columns.parent[i])] for i in nested)


def test_steps_and_phases_cover_the_profiled_time_in_words(timeline):
    (steps,), (phases,) = row(timeline, "Steps").lanes, row(timeline, "Phases").lanes
    assert labels(timeline, steps) == [f"Step {n} (warm-up)" for n in (1, 2)] + [
        f"Step {n}" for n in (3, 4, 5, 6, 7)
    ]
    assert {"Forward", "Backward", "Optimizer", "Between loss and backward"} <= set(labels(timeline, phases))
    lasts = timeline.duration_ms[phases.first : phases.end].sum()
    assert lasts == pytest.approx((timeline.start_ms + timeline.duration_ms).max())
    assert timeline.counted_ms[0] == pytest.approx(timeline.start_ms[steps.first + 2])


def test_ranges_are_named_in_words_and_operations_as_torch_names_them(timeline):
    shown = set(timeline.names)
    assert {"Module conv1", "Forward", "aten::conv2d"} <= shown
    assert not [name for name in shown if name.startswith("accel")]


def test_a_slice_knows_its_phase_module_and_self_time(real_profile, timeline):
    at = timeline.names.index("aten::mkldnn_convolution")
    (first, *_) = np.flatnonzero(timeline.name == at)
    assert timeline.phases[timeline.phase[first]] == "forward"
    assert timeline.modules[timeline.module[first]] == "conv1"
    assert 0 < timeline.self_ms[first] <= timeline.duration_ms[first]


def test_an_operations_slices_have_the_time_and_calls_that_the_op_table_says(real_profile, timeline):
    begins, until = timeline.counted_ms
    counted = np.flatnonzero(
        (timeline.start_ms >= begins) & (timeline.start_ms < until) & (timeline.event >= 0)
    )
    sums: dict[tuple[str, str, str], tuple[float, int]] = {}
    for i in counted.tolist():
        key = (
            timeline.ops[timeline.name[i]],
            timeline.phases[timeline.phase[i]],
            timeline.modules[timeline.module[i]],
        )
        ms, calls = sums.get(key, (0.0, 0))
        sums[key] = ms + timeline.self_ms[i], calls + 1
    steps = real_profile.events.kept.steps
    rows = [row for row in real_profile.rows if "→" not in row.phase]
    assert len(rows) > 50
    for row in rows:
        ms, calls = sums[row.op, row.phase, row.module]
        assert (ms / steps, calls / steps) == pytest.approx((row.self_ms, row.calls)), row
    gaps = {timeline.ops[n] for n in timeline.name if timeline.names[n].startswith("Between")}
    assert gaps == {"Python code"}


def test_kernels_have_a_row_for_each_stream_of_each_gpu_and_overlapping_ones_a_lane_each():
    launch = [event("aten::mm", 0, 4)]
    kernels = [
        event("gemm_a", 1, 2, on_device=1, stream=7),
        event("gemm_b", 2, 2, on_device=1, stream=7),
        event("gemm_c", 3, 1, on_device=1, stream=7),
        event("copy", 1, 1, kind="gpu_memcpy", on_device=1, index=1, stream=20),
    ]
    timeline = read_timeline(read_events(read_columns(launch + kernels)))
    assert [row.label for row in timeline.rows][-2:] == ["GPU 0 · stream 7", "GPU 1 · stream 20"]
    lanes = row(timeline, "GPU 0 · stream 7").lanes
    assert [labels(timeline, lane) for lane in lanes] == [["gemm_a", "gemm_c"], ["gemm_b"]]


def test_of_too_many_slices_the_longest_are_kept_and_the_rest_counted(real_profile):
    few = read_timeline(real_profile.events, most=50)
    on_threads = few.event >= 0
    assert on_threads.sum() == 50
    assert few.duration_ms[on_threads].min() >= few.left_out_ms > 0
    assert few.left_out == (read_timeline(real_profile.events).event >= 0).sum() - 50


def test_with_stacks_a_slice_knows_the_line_that_led_to_it():
    model = SmallCNN()
    namespace = {"torch": torch, "model": model, "optimizer": torch.optim.SGD(model.parameters())}
    cell = "for _ in range(9):\n    loss = model(torch.randn(4, 1, 8, 8)).sum()\n    loss.backward()\n    optimizer.step()\n"
    workbench = Workbench(namespace, spare_workers=0)
    timeline = read_timeline(workbench.profile(cell, stacks=True).events)
    workbench.close()
    at = np.flatnonzero(timeline.name == timeline.names.index("aten::conv2d"))
    lines = {timeline.lines[n].text for n in timeline.line[at]}
    assert "x = torch.relu(self.conv1(x))" in lines
    drawn = np.flatnonzero(timeline.name == timeline.names.index("aten::randn"))
    assert {str(timeline.lines[n]) for n in timeline.line[drawn]} == {"cell, line 2"}


def test_without_stacks_no_slice_has_a_line(timeline):
    assert set(timeline.line.tolist()) == {-1}
    assert timeline.lines == ()
