"""What `%accel` alone shows: the status, and the commands under it."""

from __future__ import annotations

from accel.commands.overview import Overview
from accel.html_parts import Markup, block, heading
from accel.views import help, status


def text(overview: Overview) -> str:
    """For a terminal."""
    return f"{overview.status}\n\n{overview.help}"


def html(overview: Overview) -> Markup:
    """For a notebook."""
    return block(status.html(overview.status), heading("Commands"), help.html(overview.help))
