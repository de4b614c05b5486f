"""Lanes as SVG: spans on one scale, each with its text inside, below it, or, where there is no room, under the pointer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from accel.views.labs.svg_parts import LINE_HEIGHT, SIZE, SMALL_SIZE, Drawing, width_of, wrapped

if TYPE_CHECKING:
    from accel.labs.course.diagram import Lane, Lanes, Span

WIDE = 740.0  # of the whole drawing
LONGEST_NAME = 170.0
HIGH = 36.0  # of a lane
BETWEEN = 12.0
INSIDE = 6.0  # left free within a span, both sides together
LEVELS = 2  # of texts below a lane
_STEP = SMALL_SIZE * LINE_HEIGHT


@dataclass
class _Below:
    """Texts below a lane, in levels: each as far left as its level ends."""

    left: float
    ends: list[float] = field(default_factory=list)

    def place(self, centre: float, wide: float, *, is_crowded: bool) -> tuple[float, int] | None:
        """Where a text begins, and its level; None where there is no room. A crowded one leaves its right to the next one."""
        wishes = [centre - wide / 2, centre - wide + 3, centre - 3]
        if is_crowded:
            wishes = [wishes[1], wishes[0], wishes[2]]
        for level in range(LEVELS):
            if level == len(self.ends):
                self.ends.append(float("-inf"))
            for wish in wishes:
                x = min(max(wish, self.left), WIDE - wide)
                if self.ends[level] + 5 <= x:
                    self.ends[level] = x + wide
                    return x, level
        return None


def draw(form: Lanes) -> Drawing:
    """All lanes under each other, with the scale below them."""
    drawing = Drawing()
    names = [wrapped(lane.name, LONGEST_NAME) for lane in form.lanes]
    left = max((width_of(line) for name in names for line in name), default=0.0) + 10
    longest = max((sum(span.long for span in lane.spans) for lane in form.lanes), default=0.0) or 1.0
    scale = (WIDE - left) / longest
    y = 0.0
    for lane, name in zip(form.lanes, names, strict=True):
        drawing.texts(left - 10, y + HIGH / 2, name, anchor="end", strong=True)
        y += _lane(drawing, lane, left, y, scale) + BETWEEN
    if form.unit:
        drawing.line([(left, y), (WIDE, y)], head=True)
        drawing.texts(WIDE, y + 12, [form.unit], size=SMALL_SIZE, anchor="end", faint=True)
    return drawing


def _lane(drawing: Drawing, lane: Lane, left: float, y: float, scale: float) -> float:
    """Draw one lane; gives how high it is with what stands below it."""
    below, x = _Below(left), left
    widths = [span.long * scale for span in lane.spans]
    insides = [_fitting(span, wide) for span, wide in zip(lane.spans, widths, strict=True)]
    levels = 0
    for at, (span, wide, inside) in enumerate(zip(lane.spans, widths, insides, strict=True)):
        drawing.box(x, y, wide, HIGH, span.tone, "" if inside else span.text)
        if inside:
            lines, size = inside
            drawing.texts(x + wide / 2, y + HIGH / 2, lines, size=size, faint=span.tone == "faint")
        elif span.text:
            following = lane.spans[at + 1 : at + 2]
            is_crowded = bool(following and following[0].text and not insides[at + 1])
            place = below.place(x + wide / 2, width_of(span.text, SMALL_SIZE), is_crowded=is_crowded)
            if place is not None:
                begins, level = place
                levels = max(levels, level + 1)
                _text_below(drawing, span.text, x + wide / 2, begins, y + HIGH, level)
        x += wide
    return HIGH + (levels * _STEP + 6 if levels else 0)


def _text_below(drawing: Drawing, text: str, centre: float, begins: float, y: float, level: int) -> None:
    """A text, and a short line to its span; the line of a lower level would run through a text."""
    if level == 0:
        drawing.line([(centre, y), (centre, y + 5)], faint=True)
    drawing.texts(begins, y + 5 + (level + 0.5) * _STEP, [text], size=SMALL_SIZE, anchor="start")


def _fitting(span: Span, wide: float) -> tuple[list[str], float] | None:
    """The lines of a text that a span has room for, and their size; None where it has none."""
    if not span.text:
        return None
    room = wide - INSIDE
    if width_of(span.text) <= room:
        return [span.text], SIZE
    lines = wrapped(span.text, room, SMALL_SIZE)
    if len(lines) <= 2 and all(width_of(line, SMALL_SIZE) <= room for line in lines):
        return lines, SMALL_SIZE
    return None
