"""A lab that was copied into the student's folder: where it is, and how to open it."""

from __future__ import annotations

from urllib.parse import quote

from accel.html_parts import Markup, block
from accel.html_parts import text as escaped
from accel.labs.course.lab_files import StartedLab


def text(lab: StartedLab) -> str:
    """For a terminal."""
    return (
        f"Lab {lab.chapter}, {lab.title}: {lab.path}\n{_what_happened(lab)}\nOpen it: jupyter lab {lab.path}"
    )


def html(lab: StartedLab) -> Markup:
    """For a notebook: a link that JupyterLab opens as a tab."""
    link = Markup(f'<a href="{quote(str(lab.path))}">{escaped(lab.path.name)}</a>')
    return block(Markup(f"Lab {lab.chapter}, {escaped(lab.title)}: {link}. {escaped(_what_happened(lab))}"))


def _what_happened(lab: StartedLab) -> str:
    if not lab.was_there:
        return "It was copied into this folder; it is yours to change."
    if lab.is_changed:
        return (
            "Your copy was here already, with changes, and is left as it is. To begin anew, rename it first."
        )
    return "Your copy was here already, unchanged."
