"""The status of a workbench as text and as HTML: what, and how it stands."""

from __future__ import annotations

from accel.html_parts import Markup, block
from accel.html_parts import table as html_table
from accel.shown import short_text, view_of
from accel.units import table
from accel.views.one_screen import MORE, one_screen
from accel.workbench.status import Status

WHOLE = "print(accel.status()) shows all of it."


def text(status: Status) -> str:
    """For a terminal; below the facts what the last trial found, which an interrupted or reloaded page may have lost."""
    found = ["", str(status.last_result)] if status.last_result is not None else []
    return "\n".join([*table(status.facts), *found])


def short(status: Status) -> str:
    """For a terminal, at most a screen."""
    if status.last_result is None:
        return text(status)
    found = short_text(status.last_result).removesuffix(MORE).splitlines()
    return one_screen([*table(status.facts), *found], more=WHOLE)


def html(status: Status) -> Markup:
    """For a notebook."""
    found = [view_of(status.last_result).html(status.last_result)] if status.last_result is not None else []
    return block(html_table(["What", "How it stands"], status.facts), *found)
