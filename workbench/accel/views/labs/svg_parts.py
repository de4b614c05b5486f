"""The pen of diagrams: boxes, lines with heads and texts as SVG, in the page's own text colour, with the room that they take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from accel.html_parts import BLUE, GREEN, OTHER_COLOUR, PINK, Markup
from accel.html_parts import text as escaped

if TYPE_CHECKING:
    from accel.labs.course.diagram import Tone

Point = tuple[float, float]

SIZE, SMALL_SIZE = 13.0, 11.0
LINE_HEIGHT = 1.3  # of the size of the text
HEAD = 8.0  # how long the head of an arrow is
MARGIN = 6.0
LONGEST = 400  # characters of one text: the rest would be no drawing any more
# Fill and how much of it; what is faint is dashed too, so that it reads without colours.
_FILLS = {
    "plain": (OTHER_COLOUR, 0.18), "main": (BLUE, 0.40), "good": (GREEN, 0.40), "bad": (PINK, 0.40),
    "faint": ("none", 0.0),
}  # fmt: skip
# Advance widths of DejaVu Sans, in parts of the size: the widest of the fonts that a page is likely to have.
_NARROW, _SLIM, _WIDE = "ijlI|.,:;'!·`", 'ftr()[]/\\{}" -', "mwMW%@—…→←↔⇄×≈"


def width_of(text: str, size: float = SIZE) -> float:
    """About how wide a text is; rather too wide than too narrow.

    >>> width_of("data") < width_of("DATA")
    True
    """
    return sum(map(_advance, text)) * size


def _advance(letter: str) -> float:
    if letter in _NARROW:
        return 0.33
    if letter in _SLIM:
        return 0.41
    if letter in _WIDE:
        return 0.95
    if ord(letter) >= 0x2E80:  # scripts and signs that take a whole square
        return 1.05
    return 0.71 if letter.isupper() else 0.635


def wrapped(text: str, width: float, size: float = SIZE) -> list[str]:
    """A text in lines that are no wider, broken between words; a word alone may be wider.

    >>> wrapped("load the next batch", 80)
    ['load the', 'next batch']
    """
    lines: list[str] = []
    for word in text[:LONGEST].split():
        if lines and width_of(f"{lines[-1]} {word}", size) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    return lines


def widest(lines: Sequence[str], size: float = SIZE) -> float:
    """The width of the longest line; 0 for none."""
    return max((width_of(line, size) for line in lines), default=0.0)


class Drawing:
    """Collects parts; `svg` gives the whole, as large as its parts need.

    >>> drawing = Drawing(); drawing.box(0, 0, 90, 30, "main"); drawing.texts(45, 15, ["data"])
    """

    def __init__(self) -> None:
        self._parts: list[Markup] = []
        self._xs: list[float] = []
        self._ys: list[float] = []

    def _took(self, *points: Point) -> None:
        self._xs += [x for x, _ in points]
        self._ys += [y for _, y in points]

    def box(self, x: float, y: float, wide: float, high: float, tone: Tone, title: str = "") -> None:
        """A rectangle with a stroke in the text's colour; `title` is shown under the pointer."""
        self._took((x, y), (x + wide, y + high))
        fill, strength = _FILLS[tone]
        stroke = 'stroke-opacity=".45" stroke-dasharray="4 3"' if tone == "faint" else 'stroke-opacity=".6"'
        about = f"<title>{escaped(title)}</title>" if title else ""
        self._parts.append(
            Markup(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{high:.1f}" rx="4" fill="{fill}" '
                f'fill-opacity="{strength}" stroke="currentColor" {stroke}>{about}</rect>'
            )
        )

    def texts(
        self, x: float, y: float, lines: Sequence[str], *, size: float = SIZE, anchor: str = "middle",
        strong: bool = False, faint: bool = False,
    ) -> None:  # fmt: skip
        """Lines of text, the middle of them at `y`; `anchor` says which end of a line is at `x`."""
        step = size * LINE_HEIGHT
        top = y - step * (len(lines) - 1) / 2
        wide = widest(lines, size)
        left = x - wide * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        self._took((left, y - step * len(lines) / 2), (left + wide, y + step * len(lines) / 2))
        look = (' font-weight="600"' if strong else "") + (' fill-opacity=".75"' if faint else "")
        for at, line in enumerate(lines):
            baseline = top + at * step + size * 0.35
            self._parts.append(
                Markup(
                    f'<text x="{x:.1f}" y="{baseline:.1f}" font-size="{size:g}" text-anchor="{anchor}" '
                    f'fill="currentColor"{look}>{escaped(line)}</text>'
                )
            )

    def line(
        self, points: Sequence[Point], *, head: bool = False, tail: bool = False, faint: bool = False
    ) -> None:
        """A line through points, with a head at its end, and one at its start."""
        points = [point for at, point in enumerate(points) if at == 0 or point != points[at - 1]]
        if len(points) < 2:
            return
        self._took(*points)
        drawn = list(points)
        if head:
            drawn[-1] = self._head(drawn[-2], drawn[-1])
        if tail:
            drawn[0] = self._head(drawn[1], drawn[0])
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in drawn)
        strength = ".45" if faint else ".8"
        self._parts.append(
            Markup(
                f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-opacity="{strength}" '
                'stroke-width="1.4" stroke-linejoin="round"/>'
            )
        )

    def _head(self, before: Point, tip: Point) -> Point:
        """A head that points at `tip`; gives the middle of its back, where the line ends."""
        (x0, y0), (x1, y1) = before, tip
        long = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5 or 1.0
        ux, uy = (x1 - x0) / long, (y1 - y0) / long
        back = (x1 - ux * HEAD, y1 - uy * HEAD)
        half = HEAD * 0.45
        corners = [
            tip,
            (back[0] - uy * half, back[1] + ux * half),
            (back[0] + uy * half, back[1] - ux * half),
        ]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self._took(*corners)
        self._parts.append(Markup(f'<polygon points="{path}" fill="currentColor" fill-opacity=".8"/>'))
        return back

    def svg(self, says: str) -> Markup:
        """The drawing in its frame; `says` is read out instead of it."""
        left, top = min(self._xs, default=0.0) - MARGIN, min(self._ys, default=0.0) - MARGIN
        wide = max(self._xs, default=0.0) + MARGIN - left
        high = max(self._ys, default=0.0) + MARGIN - top
        words = escaped(says)
        return Markup(
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{words}" width="{wide:.0f}" '
            f'viewBox="{left:.1f} {top:.1f} {wide:.1f} {high:.1f}" style="display:block;max-width:100%;height:auto">'
            f"<title>{words}</title>{''.join(self._parts)}</svg>"
        )
