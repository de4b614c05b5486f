"""The machine at one moment: the last sample in words, as text, as HTML and as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from accel import html_parts
from accel.machine.telemetry.load_in_words import Tile, share_of, tiles
from accel.machine.telemetry.sample import Sample

MOST_LINES = 16


@dataclass(frozen=True)
class LoadSnapshot:
    """The last sample, and what is to be known about sampling here.

    >>> print(accel.monitor().snapshot())
    """

    sample: Sample
    notes: tuple[str, ...] = ()

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """What is watched, in words."""
        return tiles(self.sample)

    def __str__(self) -> str:
        width = max(len(tile.label) for tile in self.tiles)
        lines = [f"{tile.label:<{width}}  {tile.value:<18} {tile.detail}".rstrip() for tile in self.tiles]
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"sample": self.sample.to_dict(), "notes": list(self.notes)}

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        rows = [(tile.label, tile.value, _bars(tile), tile.detail) for tile in self.tiles]
        table = html_parts.table(["", "now", "share", ""], rows)
        return {
            "text/plain": str(self),
            "text/html": html_parts.block(table, *map(html_parts.note, self.notes)),
        }


def _bars(tile: Tile) -> html_parts.Markup:
    """A bar a line, each with its name and share; of very many cores the busiest."""
    told = [(name, share) for name, share in tile.lines if share is not None]
    shown = told if len(told) <= MOST_LINES else sorted(told, key=lambda line: -line[1])[:MOST_LINES]
    parts = [
        html_parts.bar(share, width_px=120) + html_parts.note(f"{name} {share_of(share)}")
        for name, share in shown
    ]
    rest = [html_parts.note(f"the busiest {MOST_LINES} of {len(told)}")] if len(shown) < len(told) else []
    return html_parts.Markup("".join([*parts, *rest]))
