"""What doctor found: a line a part, then the notes and the machine."""

from __future__ import annotations

from accel.html_parts import Markup, block, note, table
from accel.machine.installation import Installation


def text(found: Installation) -> str:
    """For a terminal."""
    notes = (f"note     {note}" for note in found.notes)
    return "\n".join([*map(str, found.parts), *notes, found.machine_line])


def html(found: Installation) -> Markup:
    """For a notebook."""
    rows = [
        ("OK", part.name, part.found, part.enables, "")
        if part.is_present
        else ("missing", part.name, part.found, part.enables, part.how_to_get)
        for part in found.parts
    ]
    drawn = table(["", "Part", "Found", "What it enables", "How to get it"], rows)
    return block(drawn, *map(note, (*found.notes, found.machine_line)))
