"""A data set that is on this machine now."""

from __future__ import annotations

from accel.html_parts import Markup, block, note
from accel.labs.course.fetching import Fetched


def text(fetched: Fetched) -> str:
    """For a terminal."""
    if not fetched.folder:
        return f"{fetched.identity}. It comes with accel: there is nothing to fetch."
    was = "was there already" if fetched.was_there else "is there now"
    return f"{fetched.identity}. It {was}, in {fetched.folder}."


def html(fetched: Fetched) -> Markup:
    """For a notebook."""
    return block(note(text(fetched)))
