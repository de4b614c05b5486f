"""Grades as a table of students by labs, or as CSV."""

from __future__ import annotations

from accel.html_parts import Markup, block, heading, note, preformatted
from accel.html_parts import table as html_table
from accel.labs.course.submission import Grades
from accel.units import counted, table


def text(grades: Grades) -> str:
    """For a terminal; as CSV nothing else is printed, so that a file takes it."""
    if grades.as_csv:
        return grades.csv.rstrip("\n")
    rows = _rows(grades)
    return "\n".join([_title(grades), *table(rows, numeric=range(1, len(rows[0]))), *_below(grades)])


def html(grades: Grades) -> Markup:
    """For a notebook."""
    if grades.as_csv:
        return block(preformatted(grades.csv))
    head, *rows = _rows(grades)
    return block(
        heading(_title(grades)),
        html_table(head, rows, numeric=range(1, len(head))),
        *map(note, _below(grades)),
    )


def _title(grades: Grades) -> str:
    return f"Points of {counted(len({row.student for row in grades.rows}), 'student')}"


def _rows(grades: Grades) -> list[tuple[str, ...]]:
    """A column a lab; a student who handed in twice has two rows."""
    chapters = sorted({row.chapter for row in grades.rows})
    rows, each = [], list(grades.rows)
    for at in range(0, len(each), max(len(chapters), 1)):
        mine = each[at : at + len(chapters)]
        points = [f"{row.score:g}" for row in mine]
        rows.append(
            (
                _printable(mine[0].student),
                *points,
                f"{sum(row.score for row in mine):g}",
                f"{sum(row.most for row in mine):g}",
            )
        )
    return [("student", *(f"lab {number}" for number in chapters), "all", "of"), *rows]


def _printable(name: str) -> str:
    """A name that was handed in, without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else "?" for letter in name)


def _below(grades: Grades) -> list[str]:
    how = "To hand it in: accel labs export --json > NAME.json. As a table: --csv."
    return [*([how] if grades.submission else []), *map(_printable, grades.problems)]
