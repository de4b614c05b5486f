"""When the window opens, when it closes, and what it leaves as it was."""

from __future__ import annotations

import os
import sys

import pytest
import torch
from torch._C._autograd import _profiler_enabled

from accel.profiling import profiled_window
from accel.profiling.kineto_columns import read_columns
from accel.profiling.profile_options import ProfileOptions
from accel.profiling.profiled_window import USER_PROFILES, ProfiledWindow
from accel.workload.phase_marks import PhaseMarks


def count(window, name):
    columns = read_columns(window.events)
    return sum(columns.names[number] == name for number in columns.name)


def count_raw(window, name):
    return sum(event.name() == name for event in window.events)


@pytest.mark.parametrize(("warmup", "steps"), [(2, 5), (0, 1), (1, 2)])
def test_closes_after_exactly_warmup_and_steps(loop, warmup, steps):
    options = ProfileOptions(steps=steps)
    with PhaseMarks(ranges="off") as marks, ProfiledWindow(marks, options, warmup=warmup) as window:
        assert marks.ranges == "modules"
        loop.run(warmup + steps)
        assert window.is_open  # no phase began since the last boundary
        loop.run(1)
        assert not window.is_open
        assert not _profiler_enabled()
        assert marks.ranges == "off"
        assert marks.on_idle is None
        loop.run(3)
    assert window.reason == ""
    assert count(window, "accel::optimizer") == warmup + steps


def test_closes_with_a_cell_that_is_too_short(loop, profiled):
    window = profiled(lambda: loop.run(1))
    assert not _profiler_enabled()
    assert count(window, "accel::optimizer") == 1
    opened, closed = window.window_ns
    assert opened < closed


def test_a_second_profile_in_the_same_process_sees_the_same(loop, profiled):
    first, second = profiled(lambda: loop.run(9)), profiled(lambda: loop.run(9))
    assert count(first, "aten::convolution_backward") == count(second, "aten::convolution_backward") == 2 * 7


def test_closes_when_the_cell_raises(profiled):
    with pytest.raises(ZeroDivisionError):
        profiled(lambda: 1 / 0)
    assert not _profiler_enabled()


def test_stderr_of_the_cell_comes_through_and_the_profilers_does_not(capfd, loop, profiled):
    def work():
        os.write(2, b"from the cell\n")
        loop.run(8)
        print("to the end", file=sys.__stderr__, flush=True)

    window = profiled(work)
    said = capfd.readouterr().err
    assert "from the cell" in said
    assert "profiler_start" not in said
    assert "gpuGetDeviceCount" not in said
    assert window.reason == ""


def test_a_profiler_that_runs_already_is_left_alone(loop, profiled):
    with torch.autograd.profiler.profile(use_kineto=True) as theirs:
        window = profiled(lambda: loop.run(3))
        assert _profiler_enabled()
    assert window.reason == USER_PROFILES
    assert window.events == []
    assert window.window_ns is None
    assert len(theirs.kineto_results.events()) > 0


def test_gives_way_when_the_cell_starts_a_profiler_of_its_own(loop, profiled):
    theirs = []

    def work():
        loop.run(1)
        with torch.autograd.profiler.profile(use_kineto=True) as profiler:
            loop.run(2)
        theirs.append(profiler)

    window = profiled(work)
    assert window.reason == USER_PROFILES
    assert window.events == []
    names = [event.name() for event in theirs[0].kineto_results.events()]
    assert names.count("aten::convolution_backward") == 4


def test_stops_early_when_steps_are_too_long(loop, profiled, monkeypatch):
    monkeypatch.setattr(profiled_window, "MAX_S_WITH_A_STEP", 0.0)
    window = profiled(lambda: loop.run(6))
    assert count(window, "accel::backward") == 1
    assert "1 step," in window.reason


def test_stops_early_when_there_are_too_many_operations(loop, profiled, monkeypatch):
    monkeypatch.setattr(profiled_window, "MAX_EVENTS", 500)
    window = profiled(lambda: loop.run(6))
    assert 1 <= count(window, "accel::backward") < 6
    assert "many operations" in window.reason


def test_torch_is_as_before_afterwards(loop, profiled):
    import torch.autograd.profiler as module

    before = module._prepare_profiler, module._enable_profiler
    profiled(lambda: loop.run(8))
    assert (module._prepare_profiler, module._enable_profiler) == before


def test_an_interrupt_while_opening_leaves_no_profiler_running(loop, profiled, monkeypatch):
    def interrupted(give_way):
        raise KeyboardInterrupt

    monkeypatch.setattr(profiled_window, "_before_another_profiler", interrupted)
    with pytest.raises(KeyboardInterrupt):
        profiled(lambda: loop.run(1))
    assert not _profiler_enabled()


def test_an_interrupt_while_closing_is_made_good_when_the_window_is_left(loop, monkeypatch):
    def interrupted():
        monkeypatch.undo()
        raise KeyboardInterrupt

    with PhaseMarks() as marks, ProfiledWindow(marks) as window:
        monkeypatch.setattr(profiled_window, "profiler_lines_aside", interrupted)
        with pytest.raises(KeyboardInterrupt):
            loop.run(9)
        assert _profiler_enabled()
    assert not _profiler_enabled()
    assert count(window, "accel::optimizer") == 7


def test_records_shapes_and_allocations_only_when_asked(loop, profiled):
    plain, full = profiled(lambda: loop.run(9)), profiled(lambda: loop.run(9), shapes=True, memory=True)
    assert not any(event.shapes() for event in plain.events)
    assert count_raw(plain, "[memory]") == 0
    convolutions = [e for e in full.events if e.name() == "aten::mkldnn_convolution"]
    assert all(event.shapes()[0][1:] in ([1, 8, 8], [4, 8, 8]) for event in convolutions)
    assert count_raw(full, "[memory]") > len(convolutions) > 0
