"""A lab in a few lines: its title, how long it takes, how large its experiments are, and what can be called by which name."""

from __future__ import annotations

from accel.html_parts import Markup, block, heading, note
from accel.html_parts import table as html_table
from accel.labs.course.lab import Lab
from accel.units import counted, table


def text(lab: Lab) -> str:
    """For a terminal."""
    return "\n".join([title(lab), _facts(lab), *(f"  {line}" for line in table(calls(lab)))])


def html(lab: Lab) -> Markup:
    """For a notebook."""
    return block(heading(title(lab)), html_table(["Call", "Names"], calls(lab)), note(_facts(lab)))


def title(lab: Lab) -> str:
    """The chapter by number and name."""
    return f"Lab {lab.chapter.chapter}: {lab.chapter.title}"


def _facts(lab: Lab) -> str:
    return f"About {counted(lab.chapter.minutes, 'minute')}, with experiments of the scale {lab.scale}."


def calls(lab: Lab) -> list[tuple[str, str]]:
    """What a notebook can call, with the names that this chapter has."""
    chapter = lab.chapter
    found = [
        ("lab.guess(name)", [each.id for each in chapter.guesses]),
        ("lab.table(name)", [each.id for each in chapter.tables]),
        ("lab.diagram(name)", [each.id for each in chapter.diagrams]),
        ("lab.recorded(name)", [each.id for each in chapter.recorded]),
        ("lab.check(name, work)", [each.id for each in chapter.exercises]),
    ]
    return [*((call, ", ".join(names)) for call, names in found if names), ("lab.quiz()", "")]
