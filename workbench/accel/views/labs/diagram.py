"""A drawing of a lesson as SVG with its words below it; a page that shows no SVG, and a terminal, have the words."""

from __future__ import annotations

from accel.html_parts import Markup, block, note
from accel.labs.course.diagram import Boxes, Diagram
from accel.views.labs import boxes_drawing, lanes_drawing


def text(diagram: Diagram) -> str:
    """For a terminal: what the drawing says."""
    return diagram.form.says


def html(diagram: Diagram) -> Markup:
    """For a notebook."""
    form = diagram.form
    drawing = boxes_drawing.draw(form) if isinstance(form, Boxes) else lanes_drawing.draw(form)
    return block(drawing.svg(form.says), note(form.says))
