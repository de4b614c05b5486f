"""The user's own lines: what each costs, and which line led to each operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import Markup, bar, details, heading, text
from accel.profiling.line_cost import add_up_lines
from accel.profiling.phase_words import NO_MODULE, phase_words
from accel.units import milliseconds, percent
from accel.views.profile.parts import count_cell, long_table, time_cell, whole
from accel.views.profile.section import SHOWN_ROWS, Section, op_base, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.profiling.line_cost import LineCost
    from accel.profiling.profile import Profile

WIDEST = 60
OPS_OF_A_LINE = 2
ENGINE = ("autograd::engine::", "torch::autograd::")  # what autograd does round every backward operation


def _title(profile: Profile) -> str:
    return f"Lines of your code (self time of the operations they led to, {op_base(profile)})"


def _text(profile: Profile) -> Iterator[str]:
    if not profile.lines:
        return
    yield _title(profile)
    for row in add_up_lines(profile.lines)[:SHOWN_ROWS]:
        yield f"  {percent(row.share):>7}  {milliseconds(row.self_ms):>9}  {row.place}: {shortened(row.text, WIDEST)}"
        yield f"{'':>22}{shortened(_leading_ops(profile, row), 80)}"


def _html(profile: Profile) -> Iterator[object]:
    if not profile.lines:
        return
    yield heading(_title(profile))
    cells = [
        (whole(row.place), _code(row.text), shortened(_leading_ops(profile, row), 60), time_cell(row.self_ms),
         whole(percent(row.share)), bar(row.share, width_px=80))
        for row in add_up_lines(profile.lines)
    ]  # fmt: skip
    headings = ["Where", "Line", "Mostly", "Self time", "Share", ""]
    yield from long_table(headings, cells, numeric=[3, 4], rest_in=".lines")
    yield details("The line of each operation", *_operations(profile))


def _operations(profile: Profile) -> list[Markup]:
    on_gpu = any(row.device_ms for row in profile.lines)
    headings = ["Operation", "Phase", "Module", "Where", "Line", "Self time", *(["On the GPU"] if on_gpu else []),
                "Calls"]  # fmt: skip
    cells = [
        (row.op, phase_words(row.phase), row.module or NO_MODULE, whole(row.place), _code(row.text),
         time_cell(row.self_ms), *([time_cell(row.device_ms)] if on_gpu else []), count_cell(row.calls))
        for row in profile.lines
    ]  # fmt: skip
    return long_table(headings, cells, numeric=range(5, len(headings)), shown=50, rest_in=".lines")


def _leading_ops(profile: Profile, line: LineCost) -> str:
    """The operations that take most of a line's time."""
    sums: dict[str, float] = {}
    for row in profile.lines:
        if (row.filename, row.line) == (line.filename, line.line) and not row.op.startswith(ENGINE):
            sums[row.op] = sums.get(row.op, 0.0) + row.self_ms
    return ", ".join(sorted(sums, key=lambda name: -sums[name])[:OPS_OF_A_LINE])


def _code(line: str) -> Markup:
    return Markup(f"<code>{text(shortened(line, WIDEST))}</code>")


LINES = Section("lines", _text, _html, is_open=True)
