"""A file that starts a program: as it is written, and where it was not tried, that it was not."""

from __future__ import annotations

from accel.exporting.launcher import Launcher
from accel.html_parts import Markup, block, heading, note
from accel.html_parts import text as escaped


def text(launcher: Launcher) -> str:
    """For a terminal, ready to be written to a file."""
    return launcher.code


def html(launcher: Launcher) -> Markup:
    """For a notebook."""
    pre = Markup(f'<pre style="font-size:12.5px;overflow-x:auto">{escaped(launcher.code)}</pre>')
    return block(
        heading(f"Starts a program with {launcher.plan}"),
        pre,
        *([note(launcher.note)] if launcher.note else []),
    )
