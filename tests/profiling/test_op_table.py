"""Phases, modules and operations of profiled steps: who gets which time."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from accel.profiling.attribution import attribute
from accel.profiling.kept_steps import kept_steps
from accel.profiling.kineto_columns import read_columns
from accel.profiling.op_table import PYTHON, _numbered, add_up, read_op_table
from accel.profiling.profiled_events import read_events
from tests.profiling.recorded_event import RecordedEvent


def table_of(window):
    return read_op_table(read_events(read_columns(window.events), warmup=window.warmup))


def test_every_layer_has_forward_and_backward_rows_under_its_own_name(loop, profiled):
    rows = table_of(profiled(lambda: loop.run(9))).rows
    for module, forward, backward in [
        ("conv1", "aten::mkldnn_convolution", "aten::convolution_backward"),
        ("conv2", "aten::mkldnn_convolution", "aten::convolution_backward"),
        ("head", "aten::addmm", "aten::mm"),
    ]:
        found = {(row.phase, row.op): row for row in rows if row.module == module}
        assert found["forward", forward].calls == 1
        assert found["backward", backward].calls == (2 if module == "head" else 1)
    strays = [row for row in rows if row.op == "aten::convolution_backward"]
    assert {row.module for row in strays} == {"conv1", "conv2"}


def test_nested_modules_are_named_in_full(residual_loop, profiled):
    rows = table_of(profiled(lambda: residual_loop.run(9))).rows
    convolutions = {row.module for row in rows if row.op == "aten::convolution_backward"}
    assert convolutions == {"0.0 (Conv2d)", "0.1.conv1", "0.1.conv2", "0.2.conv1", "0.2.conv2"}
    assert {row.module for row in rows if row.op == "aten::native_batch_norm_backward"} == {
        "0.1.norm1", "0.1.norm2", "0.2.norm1", "0.2.norm2",
    }  # fmt: skip


def test_a_loss_written_as_a_function_has_its_backward_in_no_module(loop, profiled):
    loop.criterion = nn.functional.cross_entropy
    rows = table_of(profiled(lambda: loop.run(9))).rows
    (forward,) = [row for row in rows if row.op == "aten::nll_loss_forward"]
    (backward,) = [row for row in rows if row.op == "aten::nll_loss_backward"]
    assert (forward.phase, forward.module) == ("forward → backward", "")
    assert (backward.phase, backward.module) == ("backward", "")


def test_shares_add_up_to_one_and_times_to_the_wall_time_of_the_kept_steps(loop, profiled):
    columns = read_columns(profiled(lambda: loop.run(9)).events)
    table = read_op_table(read_events(columns, warmup=2))
    low, high, steps, dropped, _ = kept_steps(columns, attribute(columns).own_thread, 2)
    assert (table.steps, table.dropped_steps) == (5, 2) == (steps, dropped)
    assert sum(row.share for row in table.rows) == pytest.approx(1)
    assert sum(row.self_ms for row in table.rows) * steps * 1e6 == pytest.approx(high - low)
    assert all(row.self_ms >= 0 for row in table.rows)


def test_sums_over_rows_keep_time_share_and_calls(loop, profiled):
    rows = table_of(profiled(lambda: loop.run(9))).rows
    by_op = add_up(rows, by=lambda row: (row.op, "", ""))
    assert len({row.op for row in by_op}) == len(by_op) < len(rows)
    for field in ("self_ms", "share", "calls"):
        assert sum(getattr(r, field) for r in by_op) == pytest.approx(sum(getattr(r, field) for r in rows))
    assert list(by_op) == sorted(by_op, key=lambda row: -row.self_ms)


@pytest.mark.parametrize(("ran", "kept", "dropped"), [(1, 1, 0), (2, 1, 1), (3, 2, 1), (4, 2, 2), (7, 5, 2)])
def test_warm_up_never_takes_more_than_half_of_the_steps(loop, profiled, ran, kept, dropped):
    table = table_of(profiled(lambda: loop.run(ran)))
    assert (table.steps, table.dropped_steps, table.has_steps) == (kept, dropped, True)
    assert any(row.op == "aten::convolution_backward" for row in table.rows)


def test_forward_alone_gives_operations(loop, profiled):
    with torch.no_grad():
        table = table_of(profiled(lambda: loop.model(torch.ones(loop.shape))))
    assert not table.has_steps
    assert {row.phase for row in table.rows if row.op == "aten::mkldnn_convolution"} == {"forward"}


def test_a_users_own_range_around_the_step_takes_nothing_from_the_phases(loop, profiled):
    def work():
        for _ in range(9):
            with torch.profiler.record_function("my step"):
                loop.run(1)

    rows = table_of(profiled(work)).rows
    assert "my step" not in {row.op for row in rows}
    assert sum(row.share for row in rows) == pytest.approx(1)


def test_recomputed_forward_belongs_to_its_module(profiled):
    from torch.utils.checkpoint import checkpoint

    from tests.profiling.conftest import Loop

    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.head = nn.Linear(16, 16), nn.Linear(16, 10)

        def forward(self, x):
            return self.head(checkpoint(self.body, x, use_reentrant=False))

    rows = table_of(profiled(lambda: Loop(Checkpointed(), shape=(4, 16)).run(9))).rows
    calls = sum(row.calls for row in rows if row.op == "aten::addmm")
    assert calls == 3  # body twice, head once
    assert sum(row.share for row in rows) == pytest.approx(1)


def test_no_events_give_an_empty_table():
    assert read_op_table(read_events(read_columns([]))).rows == ()


BACKWARD_ELSEWHERE = [
    RecordedEvent("accel::forward", 0, 100, number=1),
    RecordedEvent("accel.module::layer", 10, 80, number=2),
    RecordedEvent("aten::mm", 20, 60, number=3, sequence=7),
    RecordedEvent("accel::backward", 200, 1000, number=4),
    RecordedEvent(
        "autograd::engine::evaluate_function: MmBackward0", 300, 800, 2, 5, sequence=7, forward_thread=1
    ),
    RecordedEvent("aten::mm", 400, 600, 2, number=6),
]


def test_backward_on_another_thread_has_the_phase_that_ran_meanwhile_and_its_forwards_module():
    table = read_op_table(read_events(read_columns(BACKWARD_ELSEWHERE)))
    found = {(row.phase, row.module, row.op): round(row.self_ms * 1e6) for row in table.rows}
    assert found["backward", "layer", "aten::mm"] == 600
    assert found["backward", "layer", "autograd::engine::evaluate_function: MmBackward0"] == 200
    assert found["backward", "", PYTHON] == 200  # 1000 less the 800 it waited for the other thread
    assert found["forward → backward", "", PYTHON] == 100
    assert sum(found.values()) == 1200


def test_device_time_belongs_to_the_operation_that_launched_it():
    launched = [
        *BACKWARD_ELSEWHERE,
        RecordedEvent("cudaLaunchKernel", 30, 10, on_thread=77, number=50, linked=3),
        RecordedEvent("gemm_kernel", 150, 500, on_thread=7, number=50, linked=3, on_device=1),
    ]
    rows = {
        (row.phase, row.module, row.op): row
        for row in read_op_table(read_events(read_columns(launched))).rows
    }
    launcher = rows["forward", "layer", "aten::mm"]
    assert round(launcher.device_ms * 1e6) == 500
    assert round(launcher.self_ms * 1e6) == 50
    assert round(rows["forward", "layer", "cudaLaunchKernel"].self_ms * 1e6) == 10
    assert not any(op == "gemm_kernel" for _, _, op in rows)


def test_a_compiled_graph_is_named_by_its_kind_and_by_the_module_that_was_compiled():
    compiled = [
        RecordedEvent("accel::forward", 0, 100, number=1),
        RecordedEvent("accel.module::(Net)", 0, 100, number=2),
        RecordedEvent("CompiledFunction", 5, 90, number=3, sequence=3),
        RecordedEvent("## Call CompiledFxGraph fnbv6vycct5t52dq ##", 10, 80, number=4),
        RecordedEvent("aten::addmm", 20, 50, number=5),
        RecordedEvent("accel::backward", 200, 100, number=6),
        RecordedEvent(
            "autograd::engine::evaluate_function: CompiledFunctionBackward", 200, 90, 1, 7, 0, 0, 3, 1
        ),
        RecordedEvent("## Call CompiledFxGraph f7hse3e42ekae4hj ##", 210, 70, number=8),
    ]
    found = {
        (row.phase, row.module, row.op) for row in read_op_table(read_events(read_columns(compiled))).rows
    }
    inside = "CompiledFxGraph in (Net)"
    assert {("forward", inside, "aten::addmm"), ("forward", inside, "CompiledFxGraph")} <= found
    assert ("backward", inside, "CompiledFxGraph") in found


@pytest.mark.parametrize("count", [50, 10_000_000], ids=["without a sort", "with a sort"])
def test_events_are_grouped_the_same_whichever_way_their_keys_are_numbered(count):
    key = np.random.default_rng(0).integers(0, 50, 1000) * 2 % 50
    keys, place = _numbered(key, count)
    assert keys.tolist() == sorted(set(key.tolist()))
    assert (keys[place] == key).all()
