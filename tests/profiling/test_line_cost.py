"""The user's line of each operation: the one that ran, and for backward that of its forward."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch import nn

from accel.profiling.kineto_columns import read_columns
from accel.profiling.line_cost import add_up_lines, read_lines
from accel.profiling.op_table import read_op_table
from accel.profiling.profiled_events import read_events
from accel.workload.user_code import CodeLine
from tests.profiling.conftest import Loop
from tests.profiling.recorded_event import RecordedEvent

LINE_OF = "accel.line::"


def read(window):
    events = read_events(read_columns(window.events), warmup=window.warmup)
    table = read_op_table(events)
    total = sum(row.self_ms for row in table.rows)
    return table, read_lines(window.events, window.user_lines.lines, events, total_ms=total)


def lines_of(rows, op, phase):
    return {row.text for row in rows if (row.op, row.phase) == (op, phase)}


class Expressions(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(10))
        self.body = nn.Linear(16, 10)

    def forward(self, x):
        x = self.body(x)
        x = x * self.scale
        return x + torch.exp(self.scale)


def test_operators_and_functions_have_the_line_that_ran_them(profiled):
    _, rows = read(profiled(lambda: Loop(Expressions(), shape=(4, 16)).run(9), stacks=True))
    assert lines_of(rows, "aten::mul", "forward") == {"x = x * self.scale"}
    assert lines_of(rows, "aten::add", "forward") == {"return x + torch.exp(self.scale)"}
    assert lines_of(rows, "aten::addmm", "forward") == {"x = self.body(x)"}


def test_after_a_call_has_returned_the_rest_of_the_line_is_the_callers(profiled):
    _, rows = read(profiled(lambda: Loop(Expressions(), shape=(4, 16)).run(9), stacks=True))
    loss = "self.criterion(self.model(x), y).backward()"
    assert lines_of(rows, "aten::nll_loss_forward", "loss") == {loss}
    assert lines_of(rows, "aten::_log_softmax", "loss") == {loss}


def test_backward_operations_have_the_line_of_their_forward(profiled):
    _, rows = read(profiled(lambda: Loop(Expressions(), shape=(4, 16)).run(9), stacks=True))
    assert lines_of(rows, "aten::mul", "backward") == {
        "x = x * self.scale",
        "return x + torch.exp(self.scale)",
    }
    assert lines_of(rows, "aten::mm", "backward") == {"x = self.body(x)"}
    assert lines_of(rows, "aten::_log_softmax_backward_data", "backward") == {
        "self.criterion(self.model(x), y).backward()"
    }


def test_the_optimizer_has_the_line_of_its_step(loop, profiled):
    _, rows = read(profiled(lambda: loop.run(9), stacks=True))
    phases = {row.text for row in rows if row.phase == "optimizer"}
    assert phases == {"self.optimizer.step()"}


def test_times_and_calls_of_lines_add_up_to_those_of_the_operations(loop, profiled):
    table, rows = read(profiled(lambda: loop.run(9), stacks=True))
    ops = {(r.op, r.phase, r.module): r for r in table.rows}
    by_row = Counter()
    calls = Counter()
    for row in rows:
        by_row[row.op, row.phase, row.module] += row.self_ms
        calls[row.op, row.phase, row.module] += row.calls
    assert "aten::convolution_backward" in {op for op, _, _ in by_row}
    for key, self_ms in by_row.items():
        assert self_ms == pytest.approx(ops[key].self_ms), key
        assert calls[key] == pytest.approx(ops[key].calls), key
    missing = {key[0] for key in set(ops) - set(by_row)}
    assert missing <= {"Python code"}


def test_a_backward_that_is_the_users_own_code_has_its_own_lines(profiled):
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient.sinh()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.Linear(16, 10)

        def forward(self, x):
            return Twice.apply(self.body(x))

    _, rows = read(profiled(lambda: Loop(Model(), shape=(4, 16)).run(9), stacks=True))
    assert lines_of(rows, "aten::sinh", "backward") == {"return gradient.sinh()"}
    assert lines_of(rows, "aten::mm", "backward") == {"return Twice.apply(self.body(x))"}


def test_operations_of_a_library_belong_to_the_users_line_that_called_it(profiled):
    model = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 10))
    _, rows = read(profiled(lambda: Loop(model, shape=(4, 16)).run(9), stacks=True))
    assert lines_of(rows, "aten::addmm", "forward") == {"self.criterion(self.model(x), y).backward()"}


def test_generators_give_way_to_the_line_that_asks_them(profiled):
    def batches():
        while True:
            yield torch.randn(4, 16).cosh()

    loop = Loop(Expressions(), shape=(4, 16))

    def work():
        for _, x in zip(range(9), batches(), strict=False):
            loop.optimizer.zero_grad()
            loss = loop.model(x).sum().tanh()
            loss.backward()
            loop.optimizer.step()

    _, rows = read(profiled(work, stacks=True))
    assert {row.text for row in rows if row.op == "aten::cosh"} == {"yield torch.randn(4, 16).cosh()"}
    assert {row.text for row in rows if row.op == "aten::tanh"} == {"loss = loop.model(x).sum().tanh()"}


def test_sums_over_a_line_keep_its_time_and_name_its_place(loop, profiled):
    _, rows = read(profiled(lambda: loop.run(9), stacks=True))
    by_line = add_up_lines(rows)
    assert len({(row.filename, row.line) for row in by_line}) == len(by_line) < len(rows)
    assert sum(row.self_ms for row in by_line) == pytest.approx(sum(row.self_ms for row in rows))
    assert 0 < sum(row.share for row in by_line) <= 1
    assert all(row.place.startswith("conftest.py, line ") for row in by_line if row.text)


def test_kernels_count_for_the_line_that_launched_them():
    trace = [
        RecordedEvent(f"{LINE_OF}0", 5, 0, number=90),
        RecordedEvent("accel::forward", 0, 100, number=1),
        RecordedEvent("aten::mm", 20, 60, number=3, sequence=7),
        RecordedEvent("cudaLaunchKernel", 30, 10, on_thread=77, number=50, linked=3),
        RecordedEvent(f"{LINE_OF}1", 150, 0, number=91),
        RecordedEvent("accel::backward", 200, 1000, number=4),
        RecordedEvent("autograd::engine::evaluate_function: MmBackward0", 300, 800, 2, 5, sequence=7, forward_thread=1),
        RecordedEvent("aten::mm", 400, 600, 2, number=6),
        RecordedEvent("gemm_kernel", 150, 500, on_thread=7, number=50, linked=3, on_device=1),
    ]  # fmt: skip
    events = read_events(read_columns(trace))
    rows = read_lines(trace, [CodeLine("a.py", 1), CodeLine("a.py", 2)], events, total_ms=1.0)
    found = {(row.op, row.phase): row for row in rows}
    assert found["aten::mm", "forward"].line == 1
    assert round(found["aten::mm", "forward"].device_ms * 1e6) == 500
    assert found["aten::mm", "backward"].line == 1  # on another thread, of a forward that line 1 ran


def test_no_events_or_no_lines_give_no_rows():
    assert read_lines([], [CodeLine("a.py", 1)], None, total_ms=0.0) == ()
    trace = [RecordedEvent("aten::mm", 0, 10, number=1)]
    assert read_lines(trace, [], read_events(read_columns(trace)), total_ms=1.0) == ()
