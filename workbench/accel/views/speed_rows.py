"""Plans as rows on one axis, here and in the panel: a bar with its interval and a dashed line at 1×, and the answer in a line."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from textwrap import shorten
from typing import NamedTuple

from accel.html_parts import BEST_COLOUR, OTHER_COLOUR, SMALL, Markup, breaking, details, div, note

WORSE_COLOUR = "#d1453b"
LINE = "rgba(127,127,127,.25)"
_SIZES = (0.5, 1, 2, 5, 10, 20, 50, 100)  # steps of the axis
# Next to each other where there is room, below each other where there is none; the numbers are shares of the width.
_ROW = "display:flex;flex-wrap:wrap;gap:2px 16px"
_PLAN, _SPEED = "flex:3 1 180px;min-width:0", "flex:7 1 270px;min-width:0"
_BRIEF = 72  # letters: a line of the panel


class SpeedRow(NamedTuple):
    """One plan: `found` is folded below its answer.

    `span` are the speed-up and the ends of its interval, which are NaN where it has none; without a span there is no bar.
    """

    title: str
    answer: str
    mark: str = ""
    verdict: str = ""
    span: tuple[float, float, float] | None = None
    found: Sequence[str] = ()


def speed_rows(rows: Sequence[SpeedRow]) -> Markup:
    """All of them under one axis.

    >>> speed_rows([SpeedRow("channels_last", "1.93× [1.88, 1.99] faster", "▲", "faster", (1.93, 1.88, 1.99))])
    """
    end = axis_end((row.span[0], row.span[2]) for row in rows if row.span)
    has_bars = any(row.span for row in rows)
    top = [div(_ROW, div(_PLAN), div(_SPEED, _axis(end)))] if has_bars else []
    return div("max-width:1100px", *top, *(_row(row, end) for row in rows))


def in_brief(sentence: str) -> str:
    """A sentence in a line; what is cut off is to be folded below it.

    >>> in_brief("failed: " + "the worker was killed " * 9)
    'failed: the worker was killed the worker was killed the worker was …'
    """
    return shorten(sentence, _BRIEF, placeholder=" …")


def _row(row: SpeedRow, end: float) -> Markup:
    weight = "font-weight:600;" if row.span else ""
    answer = div(f"{weight}overflow-wrap:break-word", breaking(f"{row.mark} {row.answer}".strip()))
    found = [details("How it was found", *map(note, row.found))] if row.found else []
    return div(
        f"{_ROW};padding:5px 0;border-top:1px solid {LINE}",
        div(f"{_PLAN};font-family:monospace;font-size:12px;overflow-wrap:break-word", breaking(row.title)),
        div(_SPEED, _bar(row, end), answer, *(div("font-size:11px", each) for each in found)),
    )


def _bar(row: SpeedRow, end: float) -> Markup:
    """The bar; over it the line at 1× and the interval, whose right end is dotted where it goes on beyond the axis."""
    if row.span is None:
        return Markup("")
    ratio, low, high = row.span
    colour = {"faster": BEST_COLOUR, "slower": WORSE_COLOUR}.get(row.verdict, OTHER_COLOUR)
    parts = [
        div(f"width:{_place(ratio, end)};height:12px;background-color:{colour}"),
        _over(1, end, "top:-4px;height:20px;border-left:1.5px dashed;opacity:.65"),
    ]
    if not math.isnan(low):
        span = f"width:{_place(min(high, end) - low, end)};box-sizing:border-box"
        right = "dotted" if high > end else "solid"
        ends = f"top:0;height:12px;border-left:1.5px solid;border-right:1.5px {right}"
        parts += [
            _over(low, end, f"{span};{ends}"),
            _over(low, end, f"{span};top:5px;height:2px;border-top:1.5px solid"),
        ]
    return div("position:relative;margin:5px 0;background-color:rgba(127,127,127,.16)", *parts)


def _over(left: float, end: float, style: str) -> Markup:
    return div(f"position:absolute;left:{_place(left, end)};{style}")


def _axis(end: float) -> Markup:
    return div(f"position:relative;height:15px;{SMALL}", *(_tick(value, end) for value in ticks(end)))


def _tick(value: float, end: float) -> Markup:
    """Its middle stands at its value; at both ends it stays inside."""
    place = f"left:{_place(value, end)}{';margin-left:-2ex' if value else ''}"
    if value > 0.92 * end:
        place = f"right:{_place(end - value, end)}"
    return div(f"position:absolute;{place}", f"{value:g}×")


def axis_end(spans: Iterable[tuple[float, float]]) -> float:
    """The right end, of speed-ups and the upper ends of their intervals.

    Never less than 1.5×, and of one wide interval no more than leaves room for the bars.
    """
    known = list(spans)
    longest = max([1.0, *(ratio for ratio, _ in known)])
    highs = [min(high, 1.5 * longest) for _, high in known if not math.isnan(high)]
    return max([1.5, *(1.06 * end for end in (longest, *highs))])


def ticks(end: float) -> list[float]:
    """Whole, half or larger steps, so that at most six ticks are drawn.

    >>> ticks(2.1)
    [0.0, 0.5, 1.0, 1.5, 2.0]
    """
    step = next((size for size in _SIZES if end / size <= 6), end / 5)
    return [number * step for number in range(math.floor(end / step) + 1)]


def _place(value: float, end: float) -> str:
    return f"{100 * min(max(value, 0.0), end) / end:.2f}%"
