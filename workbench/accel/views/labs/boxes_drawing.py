"""Boxes with their arrows as SVG."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.views.labs.box_route import Key, Route
from accel.views.labs.boxes_labels import is_above, is_left, label_at, labels
from accel.views.labs.boxes_layout import APART, Placed, place
from accel.views.labs.boxes_routes import plan
from accel.views.labs.svg_parts import LINE_HEIGHT, SIZE, SMALL_SIZE, Drawing, Point

if TYPE_CHECKING:
    from accel.labs.course.diagram import Boxes

TRACK = 12.0  # between horizontal parts in one gap
ABOVE, BELOW = 12.0, 20.0  # free over the first and under the last of them: heads need room
UPRIGHT = 36.0  # a gap with nothing but upright arrows
DIAGONAL = 76.0
OWN = 9.0  # half the height of an arrow from a box to itself
_STEP = SMALL_SIZE * LINE_HEIGHT


@dataclass
class _Gap:
    """The room below a row: where it begins, and where its horizontal parts run."""

    routes: list[Route]
    top: float = 0.0
    high: float = 0.0
    over: float = 0.0  # for texts above the horizontal parts
    tracks: dict[Key, int] | None = None

    def y_of(self, key: Key) -> float:
        """The height of an arrow's horizontal part."""
        return self.top + self.over + TRACK * (self.tracks or {}).get(key, 0)

    @property
    def below(self) -> float:
        """Where the last horizontal part is, or the gap begins."""
        tracks = self.tracks or {}
        return self.top + self.over + TRACK * max(tracks.values()) if tracks else self.top


def draw(form: Boxes) -> Drawing:
    """Rows from top to bottom, then the arrows between them."""
    drawing = Drawing()
    rows = place(form)
    routes = plan(form, rows)
    gaps = [_gap(number, routes) for number in range(len(rows))]
    tops, y = [], 0.0
    highs = [max(box.high for box in row) for row in rows]
    for high, gap in zip(highs, gaps, strict=True):
        tops.append(y)
        gap.top = y + high
        y = gap.top + gap.high
    for row, top, high in zip(rows, tops, highs, strict=True):
        for box in row:
            _box(drawing, box, top, high)
    for route in routes:
        _arrow(drawing, route, routes, tops, gaps)
    return drawing


def _box(drawing: Drawing, placed: Placed, top: float, high: float) -> None:
    drawing.box(placed.x, top, placed.wide, high, placed.box.tone)
    texts, smalls = len(placed.lines) * SIZE * LINE_HEIGHT, len(placed.small) * _STEP
    middle = top + high / 2
    faint = placed.box.tone == "faint"
    drawing.texts(
        placed.centre,
        middle - smalls / 2,
        placed.lines,
        strong=bool(placed.small) or placed.box.tone == "main",
        faint=faint,
    )
    drawing.texts(placed.centre, middle + texts / 2, placed.small, size=SMALL_SIZE, faint=True)


def _gap(number: int, routes: Sequence[Route]) -> _Gap:
    """How high the room below a row has to be for what happens in it."""
    here = [route for route in routes if number in route.gaps]
    gap = _Gap(here, high=APART)
    if not here:
        return gap
    gap.tracks = _tracks(number, here)
    under, over = 0, 0
    for route in here:
        lines = len(labels(route, routes)) if route.gaps[0] == number else 0
        if route.kind in ("elbow", "straight") and is_above(route, routes):
            over = max(over, lines)
        else:
            under = max(under, lines)
    if gap.tracks:
        gap.over = ABOVE + over * _STEP
        gap.high = gap.below - gap.top + BELOW + under * _STEP
    else:
        gap.high = max(UPRIGHT, max(under, over) * _STEP + 14)
    if any(route.kind == "diagonal" for route in here):
        gap.high = max(gap.high, DIAGONAL)
    return gap


def _key(route: Route, here: Sequence[Route]) -> Key:
    """What arrives at one box, or leaves one, shares its horizontal part."""
    if route.kind != "elbow":
        return route.key
    arriving = Counter(each.arrow.end for each in here if each.kind == "elbow")
    if route.shift:
        return route.key
    return ("in", route.arrow.end) if arriving[route.arrow.end] > 1 else ("out", route.arrow.start)


def _tracks(number: int, here: Sequence[Route]) -> dict[Key, int]:
    """A height for each horizontal part, so that none lies on another."""
    ranges: dict[Key, tuple[float, float]] = {}
    for route in here:
        ends = {"elbow": (route.x1, route.x2), "loop": (route.x1, route.x2)}.get(route.kind)
        if route.kind == "detour":
            ends = (route.x1 if route.gaps[0] == number else route.x2, route.side)
        if ends is not None:
            key = _key(route, here)
            low, high = ranges.get(key, (min(ends), max(ends)))
            ranges[key] = (min(low, *ends), max(high, *ends))
    found: dict[Key, int] = {}
    for key, (low, high) in sorted(ranges.items(), key=lambda item: item[1][1] - item[1][0]):
        taken = {
            track
            for other, track in found.items()
            if ranges[other][0] < high + 4 and low - 4 < ranges[other][1]
        }
        found[key] = next(track for track in range(len(ranges)) if track not in taken)
    return found


def _arrow(
    drawing: Drawing, route: Route, routes: Sequence[Route], tops: Sequence[float], gaps: Sequence[_Gap]
) -> None:
    points = _points(route, tops, gaps)
    drawing.line(points, head=True, tail=route.arrow.both)
    lines = labels(route, routes)
    if not lines:
        return
    x, y, anchor = _label(route, routes, points, gaps, len(lines))
    drawing.texts(x, y, lines, size=SMALL_SIZE, anchor=anchor)


def _points(route: Route, tops: Sequence[float], gaps: Sequence[_Gap]) -> list[Point]:
    """The corners of an arrow, from edge to edge."""
    start, end, x1, x2 = route.start, route.end, route.x1, route.x2
    down = start.row < end.row
    if route.kind == "across":
        y = (tops[start.row] + gaps[start.row].top) / 2 + route.shift * 0.8
        return [(start.right, y), (end.x, y)] if start.at < end.at else [(start.x, y), (end.right, y)]
    if route.kind == "side":
        own = OWN if start is end else 0.0
        y1, y2 = ((tops[each.row] + gaps[each.row].top) / 2 for each in (start, end))
        y1, y2 = y1 + route.y1 - own, y2 + route.y2 + own
        return [(x1, y1), (route.side, y1), (route.side, y2), (x2, y2)]
    if route.kind == "loop":
        gap = gaps[route.gap]
        y = gap.y_of(route.key)
        return [(x1, gap.top), (x1, y), (x2, y), (x2, gap.top)]
    y1 = gaps[start.row].top if down else tops[start.row]
    y2 = tops[end.row] if down else gaps[end.row].top
    if route.kind == "detour":
        first, last = (gaps[each].y_of(route.key) for each in route.gaps)
        return [(x1, y1), (x1, first), (route.side, first), (route.side, last), (x2, last), (x2, y2)]
    if route.kind == "elbow":
        y = gaps[route.gap].y_of(_key(route, gaps[route.gap].routes))
        return [(x1, y1), (x1, y), (x2, y), (x2, y2)]
    return [(x1, y1), (x2, y2)]


def _label(
    route: Route, routes: Sequence[Route], points: Sequence[Point], gaps: Sequence[_Gap], count: int
) -> tuple[float, float, str]:
    """Where the text stands: over an arrow to the right, next to an upright one, below a loop."""
    half = count * _STEP / 2
    if route.kind == "across":
        y = points[0][1]
        return (points[0][0] + points[1][0]) / 2, y + half + 3 if route.shift > 0 else y - half - 3, "middle"
    if route.kind in ("side", "detour"):
        at = len(points) // 2
        y = (points[at - 1][1] + points[at][1]) / 2
        return (route.side + 6, y, "start") if route.side > route.start.x else (route.side - 6, y, "end")
    gap = gaps[route.gap]
    if route.kind == "loop":
        return (points[1][0] + points[2][0]) / 2, points[1][1] + half + 3, "middle"
    if route.kind == "diagonal":
        (x1, y1), (x2, y2) = points
        return (x1 + x2) / 2 + 6, (y1 + y2) / 2, "start"
    x = label_at(route, routes)
    y = gap.top + gap.high / 2
    if gap.tracks:
        y = gap.top + gap.over / 2 if is_above(route, routes) else (gap.below + gap.top + gap.high) / 2 - 2
    return (x - 6, y, "end") if is_left(route, routes) else (x + 6, y, "start")
