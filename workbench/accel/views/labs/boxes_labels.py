"""Where the text of an arrow stands, so that it runs into no other arrow, and how it is broken for that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from accel.views.labs.box_route import LABEL
from accel.views.labs.svg_parts import SMALL_SIZE, wrapped

if TYPE_CHECKING:
    from accel.views.labs.box_route import Route

NARROWEST = 40.0
NEAR = 24.0  # another upright line so near leaves no room for a text


def labels(route: Route, routes: Sequence[Route]) -> list[str]:
    """The lines of its text, as wide as the next upright line in the gap lets them be."""
    room = LABEL
    if route.kind in ("straight", "elbow"):
        x, left = label_at(route, routes), is_left(route, routes)
        away = [x - other if left else other - x for other in _uprights(route, routes)]
        room = min([LABEL, *(far - 12 for far in away if far > 1)])
    return wrapped(route.arrow.text, max(room, NARROWEST), SMALL_SIZE)


def is_at_end(route: Route, routes: Sequence[Route]) -> bool:
    """Whether the text of an arrow with a bend stands at its end; at its start where another one arrives at the same place."""
    same = [each for each in routes if each.arrow.text and each.gap == route.gap and each.x2 == route.x2]
    return len(same) <= 1


def is_above(route: Route, routes: Sequence[Route]) -> bool:
    """Whether the text stands over the horizontal parts in the gap: at the start of an arrow down, at the end of one up."""
    return is_at_end(route, routes) != (route.start.row < route.end.row)


def is_left(route: Route, routes: Sequence[Route]) -> bool:
    """Whether the text stands left of its arrow, because another one runs close to it on the right."""
    x, others = label_at(route, routes), _uprights(route, routes)
    return any(1 < other - x < NEAR for other in others) and not any(1 < x - other < NEAR for other in others)


def label_at(route: Route, routes: Sequence[Route]) -> float:
    """The upright line next to which the text stands."""
    return route.x2 if is_at_end(route, routes) else route.x1


def _uprights(route: Route, routes: Sequence[Route]) -> list[float]:
    """The upright lines in its gap."""
    return [x for each in routes if set(each.gaps) & set(route.gaps) for x in (each.x1, each.x2)]
