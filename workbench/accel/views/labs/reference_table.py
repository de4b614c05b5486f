"""A table of the course, with the student's columns on the right, and the conditions of the course's figures below it."""

from __future__ import annotations

import math

from accel.html_parts import Markup, block, heading, note
from accel.html_parts import table as html_table
from accel.labs.course.reference_table import ReferenceTable, Value
from accel.units import table as lines_of


def cell(value: Value) -> str:
    """A figure as it reads best; nothing for one that was not measured.

    >>> cell(1892.0), cell(0.9), cell(1234.56), cell(None)
    ('1,892', '0.9', '1,235', '')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, str):
        return value
    if not math.isfinite(value) or 0 < abs(value) < 1000:
        return f"{value:.4g}"
    return f"{value:,.0f}"


def text(table: ReferenceTable) -> str:
    """For a terminal."""
    rows = [table.columns, *(tuple(map(cell, row)) for row in table.rows)]
    lines = [f"  {line}" for line in lines_of(rows, numeric=_numeric(table))]
    return "\n".join([table.title, *lines, _conditions(table)])


def html(table: ReferenceTable) -> Markup:
    """For a notebook."""
    rows = [tuple(map(cell, row)) for row in table.rows]
    drawn = html_table(table.columns, rows, numeric=_numeric(table))
    return block(heading(table.title), drawn, note(_conditions(table)))


def _conditions(table: ReferenceTable) -> str:
    return f"Reference: {table.conditions}"


def _numeric(table: ReferenceTable) -> list[int]:
    """The columns that hold figures and nothing else."""
    return [
        at
        for at in range(len(table.columns))
        if any(row[at] is not None for row in table.rows)
        and not any(isinstance(row[at], str) for row in table.rows)
    ]
