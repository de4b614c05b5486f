"""What is drawn in place: a line that ticks each second, and nothing of it stays behind."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

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
