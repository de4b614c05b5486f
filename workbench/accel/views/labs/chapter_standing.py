"""One chapter of a student: each exercise with what was seen of it, the quiz, the guesses."""

from __future__ import annotations

from accel.html_parts import Markup, block, heading, note
from accel.html_parts import table as html_table
from accel.labs.course.standing import ChapterStanding
from accel.units import counted, table

HEADINGS = ("exercise", "points", "last seen")


def text(standing: ChapterStanding) -> str:
    """For a terminal."""
    rows = [HEADINGS, *_rows(standing)]
    return "\n".join(
        [_title(standing), *(f"  {line}" for line in table(rows, numeric=(1,))), *_lines(standing)]
    )


def html(standing: ChapterStanding) -> Markup:
    """For a notebook."""
    return block(
        heading(_title(standing)),
        html_table(HEADINGS, _rows(standing), numeric=(1,)),
        *map(note, _lines(standing)),
    )


def _title(standing: ChapterStanding) -> str:
    return f"Lab {standing.chapter}, {standing.title}: {standing.points:g} of {standing.most:g} points"


def _rows(standing: ChapterStanding) -> list[tuple[str, str, str]]:
    return [
        (each.name.replace("-", " "), f"{each.points:g} of {each.most:g}", each.saw or "not checked yet")
        for each in standing.exercises
    ]


def _lines(standing: ChapterStanding) -> list[str]:
    left = f", {counted(standing.quiz_open, 'question')} open" if standing.quiz_open else ""
    quiz = f"Quiz: {standing.quiz_points:g} of {standing.quiz_most:g} points{left}: %accel quiz {standing.chapter}"
    made = (
        f"Guesses: {standing.guesses_made} of {standing.guesses} made, {standing.guesses_close} of them close"
    )
    return [quiz, made]
