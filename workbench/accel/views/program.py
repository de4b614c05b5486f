"""A program, as it is written."""

from __future__ import annotations

from accel.exporting.program import Program
from accel.html_parts import Markup, block, heading, note, preformatted


def text(program: Program) -> str:
    """For a terminal: what to know as comments, then the program."""
    return "\n".join([*(f"# {each}" for each in program.notes), "", program.code.rstrip()])


def html(program: Program) -> Markup:
    """For a notebook."""
    return block(heading("The training as a program"), *map(note, program.notes), preformatted(program.code))
