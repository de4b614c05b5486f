"""Whether oneCCL can be used, in a sentence or two."""

from __future__ import annotations

from accel.distributed.oneccl.state import OneCcl
from accel.html_parts import Markup, block, note


def text(found: OneCcl) -> str:
    """For a terminal."""
    return found.line


def html(found: OneCcl) -> Markup:
    """For a notebook."""
    return block(note(found.line))
