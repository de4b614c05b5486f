"""What an author of a lab has to correct, a line each."""

from __future__ import annotations

from accel.html_parts import Markup, block, preformatted
from accel.labs.course.lab_lint import Lint
from accel.units import counted


def text(lint: Lint) -> str:
    """For a terminal."""
    if not lint.problems:
        return f"{lint.file}: no problems found."
    return "\n".join(
        [f"{lint.file}: {counted(len(lint.problems), 'problem')}", *(f"  {each}" for each in lint.problems)]
    )


def html(lint: Lint) -> Markup:
    """For a notebook."""
    return block(preformatted(text(lint)))
