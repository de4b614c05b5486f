"""Which way each arrow goes: straight where boxes meet, with a bend in the gap between rows, or round the side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from accel.views.labs.box_route import Route
from accel.views.labs.boxes_sides import go_round

if TYPE_CHECKING:
    from accel.labs.course.diagram import Arrow, Boxes
    from accel.views.labs.boxes_layout import Placed

OPPOSITE = 9.0  # how far two arrows between the same boxes stand from the middle
HEADS = 14.0  # between arrows that meet one box
EDGE = 10.0  # an arrow meets a box at least so far from its corner


def plan(form: Boxes, rows: Sequence[Sequence[Placed]]) -> list[Route]:
    """A route for each arrow."""
    boxes = {each.box.id: each for row in rows for each in row}
    pairs = [(arrow.start, arrow.end) for arrow in form.arrows]
    routes = [_route(arrow, boxes[arrow.start], boxes[arrow.end], rows) for arrow in form.arrows]
    for at, route in enumerate(routes):
        back = (route.arrow.end, route.arrow.start)
        if route.start is not route.end and back in pairs:
            route.shift = -OPPOSITE if at < pairs.index(back) else OPPOSITE
            if route.kind in ("straight", "elbow"):
                route.x1, route.x2 = route.x1 + route.shift, route.x2 + route.shift
    _make_diagonal(routes)
    _keep_apart(routes)
    go_round(routes, rows)
    return routes


def _route(arrow: Arrow, start: Placed, end: Placed, rows: Sequence[Sequence[Placed]]) -> Route:
    if start.row == end.row:
        if abs(start.at - end.at) == 1:
            return Route(arrow, "across", start, end, start.centre, end.centre)
        if start is end and start.is_last:
            return Route(arrow, "side", start, end, start.right, end.right)
        way = 1 if end.centre >= start.centre else -1
        return Route(
            arrow,
            "loop",
            start,
            end,
            start.centre + way * start.wide / 4,
            end.centre - way * end.wide / 4,
            start.row,
        )
    upper = min(start.row, end.row)
    x = _meeting(start, end)
    if x is not None and _is_free(x, start, end, rows):
        return Route(arrow, "straight", start, end, x, x, upper)
    if abs(start.row - end.row) == 1:
        return Route(arrow, "elbow", start, end, start.centre, end.centre, upper)
    at_side = (start.is_last and end.is_last) or (start.is_first and end.is_first)
    return Route(arrow, "side" if at_side else "detour", start, end, start.centre, end.centre)


def _meeting(start: Placed, end: Placed) -> float | None:
    """Where an upright arrow meets both: the middle of the narrower one, if the wider one is there."""
    narrow, wide = (start, end) if start.wide <= end.wide else (end, start)
    return narrow.centre if wide.x + EDGE <= narrow.centre <= wide.right - EDGE else None


def _is_free(x: float, start: Placed, end: Placed, rows: Sequence[Sequence[Placed]]) -> bool:
    between = rows[min(start.row, end.row) + 1 : max(start.row, end.row)]
    return not any(box.x - EDGE < x < box.right + EDGE for row in between for box in row)


def _make_diagonal(routes: Sequence[Route]) -> None:
    """Bends of all to all would run into each other: their arrows go straight from middle to middle."""
    between = [
        route
        for route in routes
        if route.kind in ("elbow", "straight") and abs(route.start.row - route.end.row) == 1
    ]
    leaving = Counter((route.gap, route.arrow.start) for route in between)
    arriving = Counter((route.gap, route.arrow.end) for route in between)
    crowded = {
        route.gap
        for route in between
        if route.kind == "elbow"
        and leaving[route.gap, route.arrow.start] > 1
        and arriving[route.gap, route.arrow.end] > 1
    }
    for route in between:
        if route.gap in crowded:
            route.kind, route.x1, route.x2 = "diagonal", route.start.centre, route.end.centre
    for box in {route.arrow.end for route in between}:
        heads = [route for route in between if route.kind == "diagonal" and route.arrow.end == box]
        heads.sort(key=lambda route: route.x1)
        for at, route in enumerate(heads):  # heads on one point would be a blot
            route.x2 += (at - (len(heads) - 1) / 2) * min(HEADS, route.end.wide / (len(heads) + 1))


def _keep_apart(routes: Sequence[Route]) -> None:
    """Where one arrow leaves a box and another one arrives, each gets its own place."""
    meetings: dict[tuple[str, bool, float], list[tuple[Route, bool]]] = {}
    for route in routes:
        if route.kind in ("elbow", "straight") and not route.shift:
            down = route.start.row < route.end.row
            meetings.setdefault((route.arrow.start, down, route.x1), []).append((route, True))
            meetings.setdefault((route.arrow.end, not down, route.x2), []).append((route, False))
    for here in meetings.values():
        leaving = [route for route, leaves in here if leaves and not route.arrow.both]
        arriving = [route for route, leaves in here if not leaves and not route.arrow.both]
        if not leaving or not arriving:
            continue
        to, come = (sum(xs) / len(xs) for xs in ([r.x2 for r in leaving], [r.x1 for r in arriving]))
        by = OPPOSITE if to > come else -OPPOSITE
        for route in leaving:
            _move(route, by, 0.0)
        for route in arriving:
            _move(route, 0.0, -by)


def _move(route: Route, start: float, end: float) -> None:
    """Move one end of an arrow; a straight one stays straight, and where it is if it goes between boxes."""
    if route.kind == "straight":
        is_long = abs(route.start.row - route.end.row) > 1
        start = end = 0.0 if route.shift or is_long else start or end
        route.shift = route.shift or start
    route.x1, route.x2 = route.x1 + start, route.x2 + end
