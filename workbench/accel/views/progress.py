"""What goes on now: a line, small print, and under it the result so far."""

from __future__ import annotations

from typing import Protocol

from accel.html_parts import Markup, block, note
from accel.shown import Shown, short_text, view_of


class InProgress(Protocol):
    """A Progress, or a trial."""

    @property
    def line(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def result(self) -> Shown | None: ...


def text(shown: InProgress) -> str:
    """For a terminal."""
    result = shown.result
    return shown.line if result is None else f"{shown.line}\n{result}"


def short(shown: InProgress) -> str:
    """For a terminal, where the result is of a screen at most."""
    result = shown.result
    return shown.line if result is None else f"{shown.line}\n{short_text(result)}"


def html(shown: InProgress) -> Markup:
    """For a notebook."""
    result = shown.result
    below = "" if result is None else view_of(result).html(result)
    return block(*map(note, (shown.line, *shown.notes)), below)
