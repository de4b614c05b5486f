"""The catalogue without a workload: layer by layer what each acceleration does."""

from __future__ import annotations

from accel.commands.accelerations import AccelerationList
from accel.html_parts import Markup, block, heading, note, table

HOW_TO_CHECK = (
    "Which of them can work on your training: %%accel profile over the cell, then %accel accelerations."
)


def text(found: AccelerationList) -> str:
    """For a terminal."""
    width = max((len(row.name) for row in found.rows), default=0)
    lines = []
    for title, rows in found.groups:
        lines += [title, *(f"  {row.name:<{width}}  {row.summary} ({row.effect})" for row in rows), ""]
    return "\n".join([*lines, HOW_TO_CHECK])


def html(found: AccelerationList) -> Markup:
    """For a notebook."""
    parts = []
    for title, rows in found.groups:
        cells = [(row.name, row.summary, row.effect) for row in rows]
        parts += [heading(title), table(["acceleration", "what it does", "effect on training"], cells)]
    return block(*parts, note(HOW_TO_CHECK))
