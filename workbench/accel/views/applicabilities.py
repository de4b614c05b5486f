"""The catalogue for one workload: layer by layer what works here, and why the rest does not."""

from __future__ import annotations

from accel.errors import in_words
from accel.html_parts import Markup, block, heading, note, table
from accel.workbench.status import Applicabilities

HEADINGS = ("acceleration", "works here", "what it does", "effect on training")


def text(found: Applicabilities) -> str:
    """For a terminal."""
    width = max((len(row.name) for row in found.rows), default=0)
    lines = [found.workload_line]
    for title, rows in found.groups:
        lines += ["", title]
        for row in rows:
            lines.append(f"  {row.answer:<4}  {row.name:<{width}}  {row.summary} ({row.entry.effect})")
            lines += [f"        {reason}" for reason in row.reasons]
    return "\n".join(lines)


def html(found: Applicabilities) -> Markup:
    """For a notebook."""
    parts = [note(found.workload_line)]
    for title, rows in found.groups:
        cells = [
            (row.name, ": ".join(filter(None, (row.answer, in_words(row.reasons)))), row.summary, row.entry.effect)
            for row in rows
        ]  # fmt: skip
        parts += [heading(title), table(HEADINGS, cells)]
    return block(*parts)
