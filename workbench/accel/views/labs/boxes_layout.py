"""Where boxes stand: rows centred under each other on columns of one width, so that boxes under each other meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.views.labs.svg_parts import LINE_HEIGHT, SIZE, SMALL_SIZE, widest, width_of, wrapped

if TYPE_CHECKING:
    from accel.labs.course.diagram import Box, Boxes

WIDE = 740.0  # what a row should not be wider than
ROOMY = 190.0  # a box does not grow wider for a text that can be broken
NARROWEST = 44.0
PADDING = 20.0  # left free within a box, both sides together
APART = 20.0  # boxes that no arrow joins
JOINED = 46.0  # boxes with an arrow between them
ON_ARROW = 110.0  # how wide a text on an arrow between two neighbours may be


@dataclass(frozen=True)
class Placed:
    """A box with its place in the drawing but for its height, which is that of its row."""

    box: Box
    row: int
    at: int  # in its row
    x: float
    wide: float
    lines: list[str]
    small: list[str]
    is_first: bool
    is_last: bool

    @property
    def centre(self) -> float:
        """The middle, from the left."""
        return self.x + self.wide / 2

    @property
    def right(self) -> float:
        """The right edge."""
        return self.x + self.wide

    @property
    def high(self) -> float:
        """What its text needs."""
        texts = len(self.lines) * SIZE + len(self.small) * SMALL_SIZE
        return max(38.0, texts * LINE_HEIGHT + 16)


def place(form: Boxes) -> list[list[Placed]]:
    """Each row from left to right.

    >>> [[box.x for box in row] for row in place(form)]
    [[0.0, 110.0], [55.0]]
    """
    apart = _apart(form)
    column = _column(form, apart)
    widths = [[_wide(box, column, apart) for box in row] for row in form.rows]
    totals = [sum(row) + apart * (len(row) - 1) for row in widths]
    placed = []
    for number, (row, wides, total) in enumerate(zip(form.rows, widths, totals, strict=True)):
        x, boxes = (max(totals) - total) / 2, []
        for at, (box, wide) in enumerate(zip(row, wides, strict=True)):
            lines = wrapped(box.text, wide - PADDING)
            small = wrapped(box.small, wide - PADDING / 2, SMALL_SIZE)
            boxes.append(Placed(box, number, at, x, wide, lines, small, at == 0, at == len(row) - 1))
            x += wide + apart
        placed.append(boxes)
    return placed


def _wide(box: Box, column: float, apart: float) -> float:
    return box.wide * column + max(box.wide - 1, 0) * apart


def _apart(form: Boxes) -> float:
    """How far boxes of a row stand apart: an arrow between them, and the text on it, needs room."""
    places = {box.id: (row, at) for row, boxes in enumerate(form.rows) for at, box in enumerate(boxes)}
    apart = APART
    for arrow in form.arrows:
        (row, at), (other, there) = places[arrow.start], places[arrow.end]
        if row == other and abs(at - there) == 1:
            text = widest(wrapped(arrow.text, ON_ARROW, SMALL_SIZE), SMALL_SIZE)
            apart = max(apart, JOINED, text + 20 if text else 0)
    return apart


def _column(form: Boxes, apart: float) -> float:
    """As wide as texts ask for, as narrow as the longest word allows where the drawing would be too wide."""
    boxes = [box for row in form.rows for box in row]
    asked = max(_share(box, min(_natural(box), ROOMY * max(box.wide, 1)), apart) for box in boxes)
    needed = max(_share(box, _longest_word(box), apart) for box in boxes)
    columns = max(sum(max(box.wide, 1) for box in row) for row in form.rows)
    fitting = (WIDE - apart * (columns - 1)) / columns
    return max(needed, min(asked, fitting), NARROWEST)


def _share(box: Box, wide: float, apart: float) -> float:
    """How wide a column has to be for a box of this width."""
    return (wide - max(box.wide - 1, 0) * apart) / box.wide


def _natural(box: Box) -> float:
    return max(width_of(box.text) + PADDING, width_of(box.small, SMALL_SIZE) + PADDING / 2)


def _longest_word(box: Box) -> float:
    text = widest(box.text.split()) + PADDING
    return max(text, widest(box.small.split(), SMALL_SIZE) + PADDING / 2)
