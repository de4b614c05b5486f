"""A line each second while a plain function waits, where somebody can see it."""

from __future__ import annotations

import io
import threading

import pytest

from accel.commands.line import ticking as module
from accel.commands.line.ticking import ticking, wait_ticking


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(module, "SECONDS_BETWEEN_TICKS", 0.001)


def test_the_line_changes_in_place_and_nothing_of_it_stays():
    stream, asked = Terminal(), threading.Semaphore(0)

    def line():
        asked.release()
        return "Trial: measuring"

    with ticking(line, stream=stream):
        assert all(asked.acquire(timeout=30) for _ in range(3))
    written = stream.getvalue()
    assert written.count("\rTrial: measuring") >= 2
    assert "\n" not in written
    assert written.endswith(f"\r{' ' * len('Trial: measuring')}\r")
    assert "accel ticking" not in {thread.name for thread in threading.enumerate()}


def test_where_nobody_sees_it_nothing_is_written_and_no_thread_runs():
    stream = io.StringIO()
    with ticking(lambda: "Trial", stream=stream):
        assert "accel ticking" not in {thread.name for thread in threading.enumerate()}
    assert stream.getvalue() == ""


def test_the_event_ends_it_before_what_is_waited_for():
    stream = Terminal()
    with ticking(lambda: "starting", stream=stream) as over:
        over.set()
        for thread in threading.enumerate():
            if thread.name == "accel ticking":
                thread.join(30)
        before = stream.getvalue()
    assert stream.getvalue() == before


def test_a_trial_tells_phase_and_seconds_and_gives_its_result(monkeypatch):
    told, stream = threading.Event(), Terminal()
    monkeypatch.setattr(module.sys, "stderr", stream)

    class Trial:
        @property
        def goes_on(self):
            told.set()
            return "Trial: compiling, 64 s. Interrupt stops it."

        def wait(self):
            assert told.wait(30)
            return "ladder"

    assert wait_ticking(Trial(), "batch of 64:") == "ladder"
    monkeypatch.undo()
    assert "batch of 64: Trial: compiling, 64 s. Interrupt stops it." in stream.getvalue()
