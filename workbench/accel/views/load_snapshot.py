"""A sample of the machine's load: a line a tile, on a page with a bar a CPU."""

from __future__ import annotations

from accel.html_parts import Markup, bar, block, note, table
from accel.machine.telemetry.load_in_words import LoadSnapshot, Tile, share_of

MOST_LINES = 16


def text(snapshot: LoadSnapshot) -> str:
    """For a terminal."""
    width = max(len(tile.label) for tile in snapshot.tiles)
    lines = [f"{tile.label:<{width}}  {tile.value:<18} {tile.detail}".rstrip() for tile in snapshot.tiles]
    return "\n".join([*lines, *snapshot.notes])


def html(snapshot: LoadSnapshot) -> Markup:
    """For a notebook."""
    rows = [(tile.label, tile.value, _bars(tile), tile.detail) for tile in snapshot.tiles]
    return block(table(["", "now", "share", ""], rows), *map(note, snapshot.notes))


def _bars(tile: Tile) -> Markup:
    """A bar a line, each with its name and share; of very many cores the busiest."""
    known = [(name, share) for name, share in tile.lines if share is not None]
    shown = known if len(known) <= MOST_LINES else sorted(known, key=lambda line: -line[1])[:MOST_LINES]
    parts = [bar(share, width_px=120) + note(f"{name} {share_of(share)}") for name, share in shown]
    rest = [note(f"the busiest {MOST_LINES} of {len(known)}")] if len(shown) < len(known) else []
    return Markup("").join([*parts, *rest])
