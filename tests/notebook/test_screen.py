"""What is drawn in place: a line that ticks each second, and nothing of it stays behind."""

from __future__ import annotations

import io
import itertools
import sys
import threading
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

import accel
from accel.notebook.first_write import before_the_first_write
from accel.notebook.screen import Screen

TERMINAL = SimpleNamespace()  # a shell without a kernel


@dataclass
class Line:
    line: str


class Stream(io.StringIO):
    def __init__(self, is_terminal):
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self):
        return self._is_terminal

    @property
    def left_on_screen(self):
        """The lines that a reader sees in the end: what a carriage return led back over is gone."""
        return [
            line.split("\r")[-1].replace("\x1b[K", "") for line in self.getvalue().rstrip("\n").split("\n")
        ]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def drawn(stream, seconds, *, topics=("",)):
    """A minute's phases, asked four times a second, as a wait does."""
    clock = Clock()
    screen, drawings = Screen(TERMINAL, stream=stream, clock=clock), []
    for topic in topics:
        end = clock.now + seconds
        while clock.now < end:
            if screen.is_due(False):
                drawings.append(clock.now)
                screen.show(Line(f"{topic} compiling, {clock.now:.0f} s"), topic=topic)
            clock.now += 0.25
    screen.end(Line("Trial done"))
    return drawings


def test_nothing_is_silent_for_longer_than_a_second():
    times = drawn(Stream(True), 64)
    assert len(times) == 64
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) <= 1.0


def test_a_change_is_drawn_sooner_but_not_more_often_than_four_times_a_second():
    clock = Clock()
    screen = Screen(TERMINAL, stream=Stream(True), clock=clock)
    screen.show(Line("now"))
    clock.now = 0.2
    assert not screen.is_due(True)
    clock.now = 0.3
    assert screen.is_due(True)
    assert not screen.is_due(False)


def test_a_terminal_keeps_the_last_line_alone():
    stream = Stream(True)
    drawn(stream, 64)
    assert stream.left_on_screen == ["Trial done"]


def test_a_line_longer_than_the_terminal_is_cut_so_that_it_can_be_overwritten(monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    stream = Stream(True)
    Screen(TERMINAL, stream=stream, clock=Clock()).show(Line("x" * 100))
    assert stream.getvalue().count("x") == 39


@pytest.mark.parametrize(("topics", "lines"), [(("one",), 3), (("one", "two"), 6)])
def test_a_file_gets_a_line_for_each_topic_and_one_each_half_a_minute(topics, lines):
    stream = Stream(False)
    drawn(stream, 64, topics=topics)
    assert stream.getvalue().count("\n") == lines
    assert "\r" not in stream.getvalue()


def test_a_notebook_redraws_one_display_and_the_saved_output_is_the_last(shell):
    shell.display_pub.outputs.clear()
    clock = Clock()
    screen = Screen(SimpleNamespace(kernel=True), clock=clock)
    for second in range(5):
        clock.now = float(second)
        screen.show(Line(f"{second} s"))
    screen.end(Line("done"))
    first, *later = shell.display_pub.outputs
    assert all(output["update"] for output in later)
    assert len({output["transient"]["display_id"] for output in [first, *later]}) == 1
    assert "done" in later[-1]["data"]["text/plain"]


class Turns:
    """In place of the event that ends a heartbeat: each wait of the thread takes its time by the fake clock."""

    def __init__(self, clock, seconds):
        self._clock, self._end = clock, clock.now + seconds

    def wait(self, seconds):
        self._clock.now += seconds
        return self._clock.now > self._end


def beats_in(screen, clock, seconds, drawing=None):
    """When it drew in that time."""
    drawn = []

    def now():
        drawn.append(clock.now)
        return Line(f"running {clock.now:.0f} s")

    screen._beat(drawing or now, Turns(clock, seconds))
    return drawn


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def screen(clock):
    return Screen(TERMINAL, stream=Stream(True), clock=clock)


def test_a_heartbeat_is_drawn_where_nothing_else_was_for_a_second(screen, clock):
    screen.show(Line("packing"))
    assert beats_in(screen, clock, 3) == [1.0, 2.0, 3.0]
    screen.show(Line("sending"))
    assert beats_in(screen, clock, 0.9) == []


def test_after_the_end_and_while_something_else_writes_nothing_beats(screen, clock):
    screen.show(Line("packing"))
    screen.hush()
    assert beats_in(screen, clock, 3) == []
    screen.hush(False)
    assert beats_in(screen, clock, 1)
    screen.end(Line("Trial done"))
    assert beats_in(screen, clock, 3) == []
    assert screen._out.left_on_screen == ["Trial done"]


def test_a_drawing_whose_data_change_under_it_is_drawn_the_next_time(screen, clock):
    calls = []

    def drawing():
        calls.append(clock.now)
        if len(calls) == 1:
            raise RuntimeError("dictionary changed size during iteration")
        return Line("searching")

    screen.show(Line("packing"))
    beats_in(screen, clock, 2, drawing)
    assert screen._out.left_on_screen == ["searching"]
    assert calls[0] == 1.0


def test_of_a_heartbeat_alone_nothing_stays(clock):
    stream = Stream(True)
    screen = Screen(TERMINAL, stream=stream, clock=clock)
    drawn = threading.Event()
    with screen.beating(lambda: drawn.set() or Line("running")):
        clock.now = 2.0
        assert drawn.wait(30)
    assert "running" in stream.getvalue()
    assert stream.left_on_screen == [""]


@pytest.mark.parametrize("is_notebook", [True, False])
def test_without_progress_nothing_moves_and_the_end_is_told(shell, clock, monkeypatch, is_notebook):
    monkeypatch.setattr(accel.options, "progress", False)
    shell.display_pub.outputs.clear()
    stream = Stream(True)
    screen = Screen(SimpleNamespace(kernel=True) if is_notebook else TERMINAL, stream=stream, clock=clock)
    clock.now = 60.0
    assert not screen.is_due(True)
    screen.show(Line("measuring"))
    screen.end(Line("Trial done"))
    told = [str(output["data"]["text/plain"]) for output in shell.display_pub.outputs]
    assert (
        ["done" in each for each in told] == [True]
        if is_notebook
        else stream.left_on_screen == ["Trial done"]
    )
    assert "measuring" not in stream.getvalue()


def test_in_a_terminal_a_cell_that_writes_finds_its_line_free(screen, clock, monkeypatch):
    monkeypatch.setattr(sys, "stdout", screen._out)
    screen.show(Line("packing"))
    with before_the_first_write(screen.hush):
        assert beats_in(screen, clock, 1)
        print("epoch 1")
        assert sys.stdout is screen._out
        assert beats_in(screen, clock, 3) == []
    assert screen._out.left_on_screen == ["epoch 1"]
