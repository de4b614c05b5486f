"""The status of a workbench as text and as HTML: what, and how it stands."""

from __future__ import annotations

from accel.html_parts import Markup, block
from accel.html_parts import table as html_table
from accel.units import table
from accel.workbench.status import Status


def text(status: Status) -> str:
    """For a terminal."""
    return "\n".join(table(status.facts))


def html(status: Status) -> Markup:
    """For a notebook."""
    return block(html_table(["", "status"], status.facts))
