"""What a GPU did: busy and idle, kernels under their operation, copies, launch gaps, communication."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.profiling.kineto_columns import read_columns
from accel.profiling.op_table import read_op_table
from accel.profiling.profiled_events import read_events
from accel.profiling.reading_device_activity import read_device_activity
from tests.profiling.gpu_trace import (
    ALLREDUCE,
    BATCH_BYTES,
    COPIES,
    GEMM,
    NCCL,
    PINNED,
    RELU,
    STREAM,
    GpuTrace,
    training_on_gpu,
)


def activities(trace, warmup=2):
    return read_device_activity(read_events(read_columns(trace.events), warmup=warmup))


def only(trace):
    (activity,) = activities(trace)
    return activity


def test_a_trace_of_the_cpu_alone_has_no_device(loop, profiled):
    assert read_device_activity(read_events(read_columns(profiled(lambda: loop.run(3)).events))) == ()
    assert read_device_activity(None) == ()


def test_busy_and_idle_are_shares_of_the_step_and_add_up_to_one():
    activity = only(training_on_gpu())
    assert activity.device == "cuda:0"
    assert activity.step_ms == pytest.approx(1.0)
    assert activity.busy_share == pytest.approx((50 + 220 + 200) / 1000)
    assert activity.busy_share + activity.idle_share == pytest.approx(1)


def test_work_on_two_streams_at_once_is_busy_once_and_stands_under_both_streams():
    trace = training_on_gpu(0)
    for _ in range(7):
        trace.phase("forward", 0, 900)
        trace.launch("aten::mm", 10, GEMM, 100, 300)
        trace.launch("aten::copy_", 20, PINNED, 200, 400, stream=COPIES)
        trace.end_step()
    activity = only(trace)
    assert activity.busy_share == pytest.approx(0.3)
    assert dict(activity.streams) == pytest.approx({STREAM: 0.2, COPIES: 0.2})


def test_kernels_stand_under_operation_phase_and_module_with_time_and_calls_per_step():
    trace = GpuTrace()
    for _ in range(5):
        trace.phase("forward", 0, 500)
        trace.add("accel.module::layer", 5, 490, number=1, kind="user_annotation")
        trace.launch("aten::mm", 10, GEMM, 20, 120)
        trace.launch("aten::mm", 50, GEMM, 120, 220)
        trace.phase("backward", 500, 900)
        trace.launch("aten::threshold_backward", 600, RELU, 610, 660)
        trace.end_step()
    first, second = only(trace).kernels
    assert (first.name, first.op, first.phase, first.module) == (GEMM, "aten::mm", "forward", "layer")
    assert (first.ms, first.share, first.calls) == pytest.approx((0.2, 0.8, 2))
    assert (second.name, second.op, second.phase, second.module) == (
        RELU, "aten::threshold_backward", "backward", "",
    )  # fmt: skip
    assert (first.uses_tensor_cores, second.uses_tensor_cores) == (True, False)


def test_a_kernel_in_many_rows_is_listed_once_at_its_place_by_all_its_time():
    trace = GpuTrace()
    for _ in range(5):
        trace.phase("forward", 0, 600)
        for i in range(12):
            trace.launch(f"aten::op{i}", 10 + 10 * i, RELU, 100 + 10 * i, 110 + 10 * i)
        trace.phase("backward", 600, 900)
        trace.launch("aten::op0", 610, RELU, 700, 710)
        for i in range(9):
            trace.launch("aten::mm", 630 + 10 * i, f"gemm{i}", 720 + 20 * i, 740 + 20 * i)
        trace.end_step()
    activity = only(trace)
    assert RELU not in {row.name for row in activity.kernels[:8]}
    first, *others = activity.kernels_by_name
    assert (first.name, first.ms, first.share, first.calls) == (
        RELU, pytest.approx(0.13), pytest.approx(130 / 310), pytest.approx(13)
    )  # fmt: skip
    assert {(row.op, row.phase) for row in first.rows} == {
        *((f"aten::op{i}", "forward") for i in range(12)),
        ("aten::op0", "backward"),
    }
    assert [other.name for other in others] == [f"gemm{i}" for i in range(9)]
    assert sum(len(total.rows) for total in activity.kernels_by_name) == len(activity.kernels)


@pytest.mark.parametrize(
    ("kernel", "on_tensor_cores", "unknown"),
    [
        ("Cijk_Alik_Bljk_BBS_BH_MT256x256x64_MI16x16x1_SN", 0.75, 0),
        ("void ck::kernel_gemm_xdl_cshuffle_v1<float>()", 0.75, 0),
        ("triton_tem_fused_mm_0", 0, 0.75),
        ("void at::native::reduce_kernel<512, 1>()", 0, 0),
    ],
)
def test_what_a_kernels_name_does_not_tell_is_unknown_and_not_none(kernel, on_tensor_cores, unknown):
    trace = GpuTrace()
    for _ in range(5):
        trace.phase("forward", 0, 900)
        trace.launch("aten::mm", 10, kernel, 100, 400)
        trace.launch("aten::relu", 30, RELU, 400, 500)
        trace.end_step()
    activity = only(trace)
    assert activity.tensor_core_share == pytest.approx(on_tensor_cores)
    assert activity.unknown_core_share == pytest.approx(unknown)


def test_summary_figures_of_kernels_are_per_step():
    activity = only(training_on_gpu())
    assert activity.kernels_per_step == pytest.approx(3)
    assert activity.median_kernel_us == pytest.approx(200)
    assert activity.tensor_core_share == pytest.approx(400 / 420)


@pytest.mark.parametrize(
    ("name", "memory"), [(PINNED, "pinned"), (PINNED.replace("Pinned", "Pageable"), "pageable")]
)
def test_copies_tell_the_kind_of_memory_and_the_bytes_of_a_batch(name, memory):
    (copy,) = only(training_on_gpu(copy=name)).copies
    assert (copy.kind, copy.memory, copy.calls) == ("host to device", memory, 1)
    assert copy.bytes == BATCH_BYTES
    assert copy.ms == pytest.approx(0.05)
    assert copy.gb_per_s == pytest.approx(BATCH_BYTES / 50e-6 / 1e9)


def test_bytes_that_the_profiler_did_not_tell_give_no_speed():
    trace = training_on_gpu()
    for event in trace.events:
        event.bytes = 0
    (copy,) = only(trace).copies
    assert copy.bytes == 0
    assert math.isnan(copy.gb_per_s)


def test_idle_time_is_split_by_what_the_cell_did_meanwhile():
    idle = dict(only(training_on_gpu()).idle_phases)
    # 740 to 1120 of the next step, 170 to 220 and 440 to 540
    assert idle["data"] == pytest.approx(0.1)
    assert idle["copy"] == pytest.approx(0.02 + 0.03)
    assert idle["forward"] == pytest.approx(0.02 + 0.06)
    assert idle["backward"] == pytest.approx(0.04 + 0.06)
    assert idle["optimizer"] == pytest.approx(0.1)
    assert idle["optimizer → data"] == pytest.approx(0.1)
    assert sum(idle.values()) == pytest.approx(only(training_on_gpu()).idle_share)


def test_launch_gaps_are_idle_time_that_ended_with_a_late_launch_but_not_waiting_for_data():
    activity = only(training_on_gpu())
    # 170→220 was launched at 210, 440→540 at 530, 740→1120 at 1110; 100 µs of the last were waiting for data
    assert activity.launch_gaps_share == pytest.approx(activity.idle_share - 0.1)


def test_a_device_that_waits_with_work_in_its_queue_has_no_launch_gap():
    trace = GpuTrace()
    for _ in range(5):
        trace.phase("forward", 0, 900)
        trace.launch("aten::mm", 10, GEMM, 100, 400)
        trace.launch("aten::mm", 20, GEMM, 500, 900)
        trace.end_step()
    activity = only(trace)
    assert activity.idle_share == pytest.approx(0.3)
    # 400→500 had been launched at 20; 900→1100 was launched at 1010
    assert activity.launch_gaps_share == pytest.approx(0.2)


def test_a_device_that_runs_behind_the_cpu_is_busy_and_its_steps_are_its_own():
    """The CPU launches a step in 1 ms and the device computes 3 ms for it: the queue grows."""
    trace, free = GpuTrace(), 0
    for step in range(7):
        trace.phase("forward", 0, 900)
        begins = max(free, step * 1000 + 20)
        free = begins + 3000
        trace.launch("aten::mm", 10, GEMM, begins - step * 1000, free - step * 1000)
        trace.end_step()
    activity = only(trace)
    assert activity.step_ms == pytest.approx(3.0)
    assert activity.busy_share == pytest.approx(1.0)
    assert activity.kernels_per_step == 1
    assert activity.kernels[0].ms == pytest.approx(3.0)
    (row,) = [
        row for row in read_op_table(read_events(read_columns(trace.events))).rows if row.op == "aten::mm"
    ]
    assert row.device_ms == pytest.approx(3.0)


@pytest.mark.parametrize(
    "kernel",
    [
        ALLREDUCE,
        "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(...)",
        "void deep_ep::intranode::combine<8, 768>(...)",
    ],
)
def test_communication_and_the_part_of_it_that_other_kernels_hide(kernel):
    trace = GpuTrace()
    for _ in range(5):
        trace.phase("backward", 0, 900)
        trace.launch("aten::mm", 10, GEMM, 100, 400)
        trace.launch("c10d::allreduce_", 50, kernel, 300, 700, stream=NCCL)
        trace.end_step()
    activity = only(trace)
    assert activity.communication_ms == pytest.approx(0.4)
    assert activity.communication_overlap == pytest.approx(0.25)
    assert only(training_on_gpu()).communication_ms == 0


def test_each_device_has_its_own_activity():
    trace = GpuTrace()
    for _ in range(5):
        trace.phase("forward", 0, 900)
        trace.launch("aten::mm", 10, GEMM, 100, 400)
        trace.launch("aten::mm", 30, GEMM, 100, 600, index=1)
        trace.end_step()
    first, second = activities(trace)
    assert (first.device, second.device) == ("cuda:0", "cuda:1")
    assert (first.busy_share, second.busy_share) == pytest.approx((0.3, 0.5))


@pytest.mark.parametrize(
    ("calls", "device"),
    [
        ("cuda_driver", "cuda:0"),
        ("xpu_runtime", "xpu:0"),
        ("mtia_runtime", "mtia:0"),
        ("privateuse1_driver", "privateuse1:0"),
    ],
)
def test_a_device_is_named_after_its_runtime(calls, device):
    trace = training_on_gpu()
    for event in trace.events:
        if event.activity_type() == "cuda_runtime":
            event.kind = calls
    (cuda,), (named,) = activities(training_on_gpu()), activities(trace)
    assert named == replace(cuda, device=device)


def test_without_steps_the_whole_run_is_looked_at():
    trace = GpuTrace()
    trace.phase("forward", 0, 500)
    trace.launch("aten::mm", 10, GEMM, 100, 350)
    activity = only(trace)
    assert (activity.has_steps, activity.step_ms, activity.busy_share) == (False, 0.5, 0.5)
    assert only(training_on_gpu()).has_steps


def test_a_kernel_without_its_call_or_operation_is_still_counted():
    trace = GpuTrace()
    for _ in range(5):
        trace.phase("forward", 0, 900)
        trace.add(GEMM, 100, 300, on_device=1, number=5)
        trace.end_step()
    (kernel,) = only(trace).kernels
    assert (kernel.op, kernel.phase, kernel.calls) == ("", "forward", 1)


works = st.lists(
    st.tuples(
        st.sampled_from([GEMM, RELU, ALLREDUCE, PINNED]),
        st.integers(0, 900),  # called
        st.integers(-5, 3000),  # how much later it begins
        st.integers(0, 2000),  # how long it runs
        st.integers(0, 1),  # device
        st.integers(7, 9),  # stream
    ),
    min_size=1,
    max_size=6,
)


@given(st.lists(works, min_size=1, max_size=5))
def test_shares_are_sound_whatever_ran(steps):
    trace = GpuTrace()
    for step in steps:
        trace.phase("forward", 0, 900)
        for name, called, later, runs, index, stream in step:
            begins = called + later
            trace.launch("aten::mm", called, name, begins, begins + runs, index=index, stream=stream)
        trace.end_step()
    for activity in activities(trace, warmup=1):
        assert activity.busy_share + activity.idle_share == pytest.approx(1)
        assert 0 <= activity.launch_gaps_share <= activity.idle_share + 1e-9
        assert sum(share for _, share in activity.idle_phases) == pytest.approx(activity.idle_share)
        assert 0 <= activity.communication_overlap <= 1
        assert activity.communication_ms <= activity.step_ms * activity.busy_share + 1e-9
        assert activity.step_ms > 0
        assert (
            sum(row.share for row in activity.kernels) == pytest.approx(1) or not activity.tensor_core_share
        )
        assert sum(row.calls for row in activity.kernels) == pytest.approx(activity.kernels_per_step)
        assert 0 <= activity.tensor_core_share + activity.unknown_core_share <= 1 + 1e-9
        totals = activity.kernels_by_name
        assert [total.ms for total in totals] == sorted((total.ms for total in totals), reverse=True)
        assert len({total.name for total in totals}) == len(totals)
        assert sum(total.calls for total in totals) == pytest.approx(activity.kernels_per_step)
