"""Help: text in a terminal, the same text in a notebook."""

from __future__ import annotations

from accel.commands.help import Help
from accel.html_parts import Markup, block
from accel.html_parts import text as escaped


def text(help_: Help) -> str:
    """For a terminal."""
    return help_.text


def html(help_: Help) -> Markup:
    """For a notebook."""
    return block(Markup(f'<pre style="margin:0">{escaped(help_.text)}</pre>'))
