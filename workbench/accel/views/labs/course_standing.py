"""The course as a table: each lab with the student's points; what is next below it."""

from __future__ import annotations

from accel.html_parts import Markup, bar, block, heading, note
from accel.html_parts import table as html_table
from accel.labs.course.standing import ChapterStanding, CourseStanding
from accel.units import counted, table

HEADINGS = ("", "lab", "minutes", "exercises", "quiz", "points")


def text(standing: CourseStanding) -> str:
    """For a terminal."""
    rows = [HEADINGS, *(_cells(each) for each in standing.chapters)]
    return "\n".join([*table(rows, numeric=(0, 2, 3, 4, 5)), "", *_below(standing)])


def html(standing: CourseStanding) -> Markup:
    """For a notebook."""
    rows = [
        (*_cells(each), bar(each.points / each.most if each.most else 0.0, width_px=80))
        for each in standing.chapters
    ]
    drawn = html_table((*HEADINGS, ""), rows, numeric=(0, 2, 3, 4, 5))
    return block(heading("Labs"), drawn, *map(note, _below(standing)))


def _cells(each: ChapterStanding) -> tuple[str, ...]:
    return (
        str(each.chapter), each.title, str(each.minutes), f"{each.passed} of {len(each.exercises)}",
        f"{each.quiz_points:g} of {each.quiz_most:g}", f"{each.points:g} of {each.most:g}",
    )  # fmt: skip


def _below(standing: CourseStanding) -> list[str]:
    done = f"{standing.points:g} of {standing.most:g} points."
    begun = next((each for each in standing.chapters if each.last_time and each.points < each.most), None)
    fresh = next((each for each in standing.chapters if not each.last_time), None)
    following = begun or fresh
    if following is None:
        return [f"{done} {standing.problem}".strip()]
    verb = "Go on" if begun else "Start"
    line = f"{verb} with lab {following.chapter} ({counted(following.minutes, 'minute')}): %accel labs {following.chapter}"
    return [
        f"{done} {standing.problem}".strip(),
        f"{line}, or accel labs start {following.chapter} in a terminal.",
    ]
