"""The most expensive operations of the profiled steps, by phase."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import heading
from accel.profiling.phase_words import phase_words
from accel.shown_text import one_line
from accel.units import milliseconds, percent
from accel.views.profile.parts import count_cell, long_table, phase_bar, time_cell, whole
from accel.views.profile.section import SHOWN_ROWS, Section, op_base

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.profiling.op_table import OpRow
    from accel.profiling.profile import Profile

WIDEST = 100  # of a name; the rows have it whole
FEW = 5  # on a page, or on a screen


def ops_title(profile: Profile) -> str:
    return f"Most expensive operations (self time, {op_base(profile)})"


def _text(profile: Profile) -> Iterator[str]:
    if profile.rows:
        yield ops_title(profile)
        yield from map(op_line, profile.by_phase[:SHOWN_ROWS])


def op_line(row: OpRow, widest: int = WIDEST) -> str:
    """An operation for a terminal."""
    return f"  {percent(row.share):>7}  {milliseconds(row.self_ms):>9}  {one_line(row.op, widest)}  · {phase_words(row.phase)}"


def _html(profile: Profile) -> Iterator[object]:
    rows = profile.by_phase
    if not rows:
        return
    yield heading(ops_title(profile))
    on_gpu = any(row.device_ms for row in rows)
    headings = ["Operation", "Phase", "Self time", *(["On the GPU"] if on_gpu else []), "Share", "Calls", ""]
    cells = [_cells(row, on_gpu) for row in rows]
    yield from long_table(headings, cells, numeric=range(2, len(headings) - 1), shown=FEW)


def _cells(row: OpRow, on_gpu: bool) -> list[object]:
    device = [time_cell(row.device_ms)] if on_gpu else []
    share = whole(percent(row.share))
    return [one_line(row.op, WIDEST), phase_words(row.phase), time_cell(row.self_ms), *device, share, count_cell(row.calls),
            phase_bar(row.share, row.phase)]  # fmt: skip


OPERATIONS = Section("operations", _text, _html, is_open=True)
