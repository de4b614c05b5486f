"""A guess next to what was measured and to the course's figure, and what the difference says."""

from __future__ import annotations

from accel.html_parts import Markup, block, markdown, note
from accel.html_parts import table as html_table
from accel.labs.course.guess import GuessOutcome
from accel.units import table as lines_of
from accel.views.labs.reference_table import cell


def text(outcome: GuessOutcome) -> str:
    """For a terminal."""
    lines = [f"  {line}" for line in lines_of(rows(outcome), numeric=[1])]
    return "\n".join([outcome.ask, *lines, outcome.verdict])


def html(outcome: GuessOutcome) -> Markup:
    """For a notebook."""
    drawn = html_table(["", outcome.unit, ""], rows(outcome, with_unit=False), numeric=[1])
    return block(markdown(outcome.ask), drawn, note(outcome.verdict))


def rows(outcome: GuessOutcome, *, with_unit: bool = True) -> list[tuple[str, str, str]]:
    """Whose figure, the figure, and under what conditions."""
    unit = outcome.unit if with_unit else ""
    found = [
        ("Your guess", in_unit(outcome.guess, unit), ""),
        ("Measured here", in_unit(outcome.measured, unit), ""),
    ]
    if outcome.course is not None:
        found.append(("The course", in_unit(outcome.course, unit), outcome.conditions))
    return found


def in_unit(value: float, unit: str) -> str:
    """A figure with its unit.

    >>> in_unit(35.0, "%"), in_unit(float("nan"), "ms")
    ('35 %', '–')
    """
    return f"{cell(value)} {unit}".strip() if cell(value) else "–"
