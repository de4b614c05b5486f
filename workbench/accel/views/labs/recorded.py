"""A recorded result in one line: the hardware it was recorded on, and its file."""

from __future__ import annotations

from accel.html_parts import Markup, block, note
from accel.labs.course.recorded import Recorded


def text(recorded: Recorded) -> str:
    """For a terminal."""
    return f"Recorded on {recorded.recorded_on.rstrip('.')}: {recorded.path.name}"


def html(recorded: Recorded) -> Markup:
    """For a notebook."""
    return block(note(text(recorded)))
