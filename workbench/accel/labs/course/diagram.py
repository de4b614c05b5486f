"""Drawings of a lesson as data: boxes in rows with arrows, and lanes with spans; views/labs/diagram.py draws them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from msgspec import Struct

from accel.shown import Shown

Tone = Literal["plain", "main", "good", "bad", "faint"]


class Box(Struct, frozen=True, forbid_unknown_fields=True):
    """A box: its name for arrows, its text, a smaller line below, and how it stands out."""

    id: str
    text: str
    small: str = ""
    tone: Tone = "plain"
    wide: float = 1.0  # in columns


class Arrow(Struct, frozen=True, forbid_unknown_fields=True, rename={"start": "from", "end": "to"}):
    """From one box to another, with a word on it."""

    start: str
    end: str
    text: str = ""
    both: bool = False


class Boxes(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="boxes"):
    """Rows of boxes from top to bottom, each row centred; `says` is the drawing in words."""

    id: str
    says: str
    rows: tuple[tuple[Box, ...], ...]
    arrows: tuple[Arrow, ...] = ()

    def problems(self) -> list[str]:
        """What an author has to correct."""
        names = [box.id for row in self.rows for box in row]
        twice = [f"box {name} stands {n} times" for name, n in Counter(names).items() if n > 1]
        ends = [end for arrow in self.arrows for end in (arrow.start, arrow.end)]
        empty = [f"row {at} has no box" for at, row in enumerate(self.rows, 1) if not row]
        return [*twice, *empty, *(f"there is no box {end}" for end in ends if end not in names)]


class Span(Struct, frozen=True, forbid_unknown_fields=True):
    """A stretch of a lane: its length, its text, and how it stands out; "faint" is waiting, or nothing."""

    long: float
    text: str = ""
    tone: Tone = "plain"


class Lane(Struct, frozen=True, forbid_unknown_fields=True):
    """One line of spans, one after the other from the left."""

    name: str
    spans: tuple[Span, ...]


class Lanes(Struct, frozen=True, forbid_unknown_fields=True, tag_field="kind", tag="lanes"):
    """Lanes under each other on one scale: time, memory, bits; `unit` names the scale, `says` is the drawing in words."""

    id: str
    says: str
    lanes: tuple[Lane, ...]
    unit: str = ""

    def problems(self) -> list[str]:
        """What an author has to correct."""
        short = [lane.name for lane in self.lanes if any(not span.long > 0 for span in lane.spans)]
        return [f"lane {name} has a span without length" for name in short]


@dataclass(frozen=True)
class Diagram(Shown):
    """A drawing as a notebook shows it; as text, what it says."""

    form: Boxes | Lanes
