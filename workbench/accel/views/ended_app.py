"""An app that was served, in a sentence."""

from __future__ import annotations

from accel.html_parts import Markup, block
from accel.units import duration
from accel.workbench.voila_app import EndedApp


def text(app: EndedApp) -> str:
    """For a terminal."""
    return f"The app of {app.notebook} has ended, after {duration(app.seconds)}."


def html(app: EndedApp) -> Markup:
    """For a notebook."""
    return block(text(app))
