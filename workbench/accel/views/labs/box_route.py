"""The way of one arrow between boxes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from accel.labs.course.diagram import Arrow
    from accel.views.labs.boxes_layout import Placed

# across: between neighbours in a row; loop: below a row; side: round all rows between; detour: the same from within a row
Kind = Literal["across", "straight", "elbow", "diagonal", "side", "loop", "detour"]
Key = tuple[str, str]
LABEL = 130.0  # how wide a text next to an arrow may be


@dataclass
class Route:
    """One arrow: x1 where it leaves and x2 where it arrives, in `gap`, the one below that row; y is known when heights are."""

    arrow: Arrow
    kind: Kind
    start: Placed
    end: Placed
    x1: float
    x2: float
    gap: int = -1
    shift: float = 0.0
    side: float = 0.0
    y1: float = 0.0  # of one round the side: from the middle of the box
    y2: float = 0.0

    @property
    def gaps(self) -> list[int]:
        """The gaps in which it has a horizontal part or a text."""
        if self.kind == "detour":
            down = self.start.row < self.end.row
            return [self.start.row, self.end.row - 1] if down else [self.start.row - 1, self.end.row]
        return [self.gap] if self.gap >= 0 else []

    @property
    def key(self) -> Key:
        """Arrows of the same key share their horizontal part."""
        return ("each", f"{self.arrow.start} {self.arrow.end} {self.kind}")
