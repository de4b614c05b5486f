"""Lines of the user's code as instants in the trace; whoever traces already goes first."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest
import torch

from accel.profiling import user_lines
from accel.profiling.user_lines import BUSY, LINE, UserLines


def test_without_stacks_nothing_is_followed(loop, profiled):
    window = profiled(lambda: loop.run(9))
    assert window.user_lines.lines == []
    assert not any(event.name().startswith(LINE) for event in window.events)


def test_each_line_that_ran_is_known_with_its_text(loop, profiled):
    window = profiled(lambda: loop.run(9), stacks=True)
    texts = [line.text for line in window.user_lines.lines]
    assert "self.optimizer.step()" in texts
    assert "x = self.pool(torch.relu(self.conv2(x)))" in texts
    assert not any("torch" in line.filename for line in window.user_lines.lines)
    assert sys.gettrace() is None


def test_tracing_ends_with_the_window_and_after_an_exception(loop, profiled):
    seen = []

    def work():
        loop.run(8)
        seen.append(sys.gettrace())

    profiled(work, stacks=True)
    with pytest.raises(ZeroDivisionError):
        profiled(lambda: 1 / 0, stacks=True)
    assert seen == [None]
    assert sys.gettrace() is None


def test_a_debugger_keeps_tracing_and_the_profile_says_so(loop, profiled):
    def debugger(frame, event, arg):
        return None

    before = sys.gettrace()
    sys.settrace(debugger)
    try:
        window = profiled(lambda: loop.run(9), stacks=True)
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(before)
    assert window.user_lines.reason == BUSY
    assert window.user_lines.lines == []


def test_a_debugger_that_starts_in_the_cell_is_not_stopped(loop, profiled):
    def debugger(frame, event, arg):
        return None

    def work():
        loop.run(1)
        sys.settrace(debugger)
        loop.run(8)

    try:
        profiled(work, stacks=True)
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(None)


def test_a_loop_in_plain_python_does_not_fill_the_trace(loop, profiled, monkeypatch):
    monkeypatch.setattr(user_lines, "MOST_INSTANTS", 50)

    def work():
        loop.run(1)
        for _ in range(1000):
            loop.shape = tuple(loop.shape)
        loop.run(8)

    window = profiled(work, stacks=True)
    assert window.user_lines.count == 50
    assert "later operations have no line" in window.user_lines.reason
    assert sys.gettrace() is None


def test_code_that_dataclasses_generate_is_not_the_users():
    @dataclass
    class Made:
        value: int

    lines = UserLines()
    lines.start()
    try:
        Made(1)
    finally:
        lines.stop()
    assert all(line.filename == __file__ for line in lines.lines)


def test_a_compiled_model_is_compiled_once_all_the_same(loop, profiled):
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    counters.clear()
    loop.model.compile(backend="eager")
    window = profiled(lambda: loop.run(9), stacks=True)
    loop.run(2)
    assert counters["stats"]["unique_graphs"] == 1
    assert not counters["graph_break"]
    assert any(line.text == "self.optimizer.step()" for line in window.user_lines.lines)
