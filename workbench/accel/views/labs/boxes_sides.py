"""Arrows that go round boxes at the side of a drawing: each on a line of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from accel.views.labs.box_route import LABEL
from accel.views.labs.svg_parts import SMALL_SIZE, widest, wrapped

if TYPE_CHECKING:
    from accel.views.labs.box_route import Route
    from accel.views.labs.boxes_layout import Placed

SIDE = 22.0  # from the boxes to the first of them
EACH_SIDE = 16.0
EACH_HEIGHT = 11.0  # between those that meet one side of a box


def go_round(routes: Sequence[Route], rows: Sequence[Sequence[Placed]]) -> None:
    """Give each arrow round the side a line of its own, the short ones inside."""
    outside = [route for route in routes if route.kind in ("side", "detour")]
    used = {True: 0.0, False: 0.0}
    middle = max(row[-1].right for row in rows) / 2
    for route in sorted(outside, key=lambda each: abs(each.start.row - each.end.row)):
        low, high = sorted((route.start.row, route.end.row))
        boxes = [box for row in rows[low : high + 1] for box in row]
        right = route.start.is_last and route.end.is_last
        if route.kind == "detour":
            right = route.start.centre + route.end.centre >= 2 * middle
        away = SIDE + used[right]
        text = widest(wrapped(route.arrow.text, LABEL, SMALL_SIZE), SMALL_SIZE)
        used[right] += EACH_SIDE + text
        route.side = max(box.right for box in boxes) + away if right else min(box.x for box in boxes) - away
        if route.kind == "side":
            route.x1, route.x2 = (
                (route.start.right, route.end.right) if right else (route.start.x, route.end.x)
            )
    _spread([route for route in outside if route.kind == "side" and route.start is not route.end])


def _spread(routes: Sequence[Route]) -> None:
    """Give each arrow that meets one side of a box a height of its own, so that none crosses another one there."""
    ends: dict[tuple[str, bool], list[tuple[bool, float, Route, bool]]] = {}
    for route in routes:
        down = route.start.row < route.end.row
        away, is_right = abs(route.side - route.x1), route.side > route.x1
        for box, leaves in ((route.arrow.start, True), (route.arrow.end, False)):
            goes_down = down == leaves
            ends.setdefault((box, is_right), []).append(
                (goes_down, -away if goes_down else away, route, leaves)
            )
    for here in ends.values():
        # Those that go up, the inner ones first; then those that go down, the outer ones first.
        here.sort(key=lambda each: each[:2])
        for at, (_, _, route, leaves) in enumerate(here):
            y = (at - (len(here) - 1) / 2) * EACH_HEIGHT
            route.y1, route.y2 = (y, route.y2) if leaves else (route.y1, y)
