"""A model with one more layer next to the model as it is: four figures, before and after."""

from __future__ import annotations

from accel import html_parts
from accel.opgraph.op_graph import WhatIf
from accel.units import percent, scaled, size, table

HEADINGS = ("", "now", "then", "difference", "")
NUMBERS = (1, 2, 3, 4)


def text(asked: WhatIf) -> str:
    """The question, the figures, and what had to change."""
    return "\n".join([asked.title, *table([HEADINGS, *_cells(asked)], numeric=NUMBERS), *asked.notes])


def html(asked: WhatIf) -> str:
    """The same."""
    figures = html_parts.table(list(HEADINGS), _cells(asked), numeric=NUMBERS)
    return html_parts.block(html_parts.heading(asked.title), figures, *map(html_parts.note, asked.notes))


def _cells(asked: WhatIf) -> list[tuple[str, str, str, str, str]]:
    return [
        (what, _count(what, before), _count(what, after), f"{after - before:+,}", _percent(before, after))
        for what, before, after in asked.rows
    ]


def _count(what: str, value: int) -> str:
    return size(value) if "bytes" in what else scaled(value, "") if "of a" in what else f"{value:,}"


def _percent(before: int, after: int) -> str:
    sign = "+" if after >= before else ""
    return f"{sign}{percent(after / before - 1, 1)}" if before else ""
