"""A checked exercise: the points, what was seen, what was asked, and a hint where that is not enough."""

from __future__ import annotations

from accel.html_parts import Markup, block, div, heading, note
from accel.labs.course.grading import Graded
from accel.units import in_number


def text(graded: Graded) -> str:
    """For a terminal."""
    said = [f"  {what}: {words}" for what, words in _said(graded)]
    return "\n".join([verdict(graded), *said, *([graded.problem] if graded.problem else [])])


def html(graded: Graded) -> Markup:
    """For a notebook."""
    mark = "✓" if graded.passed else "✗"
    said = [div("margin:2px 0", f"{what}: {words}") for what, words in _said(graded)]
    return block(
        heading(f"{mark} {verdict(graded)}"), *said, *([note(graded.problem)] if graded.problem else [])
    )


def verdict(graded: Graded) -> str:
    """Whether it is enough, with the points for it."""
    if not graded.passed:
        return "Not yet."
    return f"Passed: {graded.points:g} of {graded.most:g} {in_number(graded.most, 'point')}."


def _said(graded: Graded) -> list[tuple[str, str]]:
    found = [("Seen", graded.saw), ("Asked", graded.asked), ("Hint", graded.hint)]
    return [(what, words) for what, words in found if words]
