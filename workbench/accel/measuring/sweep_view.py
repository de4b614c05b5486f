"""A sweep as text and as a table with bars, the same columns in both."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accel import html_parts as html
from accel.measuring.sweep_answer import is_much_worse
from accel.measuring.sweep_row import SweepRow
from accel.units import percent, table

if TYPE_CHECKING:
    from accel.measuring.sweep import Sweep

_FASTEST, _OTHER = "#16a34a", "#2563eb"
_NAMES = 2  # columns of words before those of figures


def headings(sweep: Sweep) -> list[str]:
    """The columns that have something to say."""
    on_gpus = any(row.configuration.on_gpus for row in sweep.rows)
    named = ["GPUs" if on_gpus else "processes × threads", "backend"]
    columns = [*named, "time", "samples/s", "speed-up", "efficiency", "waiting for others"]
    if any(row.quality is not None for row in sweep.rows):
        columns += [sweep.metric]
    columns += ["after samples"] if sweep.compares_rates else []
    return columns + (["why not"] if any(row.reason for row in sweep.rows) else [])


def cells(sweep: Sweep, row: SweepRow) -> list[str]:
    """A row of the table, as text."""
    mark = "▲ " if row is sweep.winner else ""
    shown = [f"{mark}{row.configuration.label}", row.configuration.backend]
    if row.runs:
        efficiency = sweep.efficiency(row)
        shown += [
            sweep_seconds(row), f"{row.samples_per_s:,.0f}" if row.samples else "", _speed_up(sweep, row),
            "" if efficiency is None else percent(efficiency, 0),
            percent(row.communication_share, 0)
            if row.configuration.processes > 1 and not math.isnan(row.communication_share) else "",
        ]  # fmt: skip
    else:
        shown += ["–" if row.reason else "…", "", "", "", ""]
    columns = headings(sweep)
    if any(each.quality is not None for each in sweep.rows):
        shown.append("" if row.quality is None else f"{row.quality:.4g}{_worse(sweep, row)}")
    if sweep.compares_rates:
        shown.append(f"{row.samples:,}" if row.runs else "")
    if columns[-1] == "why not":
        shown.append(row.reason)
    return shown


def _worse(sweep: Sweep, row: SweepRow) -> str:
    return " ▼" if is_much_worse(sweep, row) else ""


def sweep_seconds(row: SweepRow) -> str:
    """Its time, as a table has it."""
    from accel.measuring.sweep import shown_seconds

    return shown_seconds(row.seconds)


def _speed_up(sweep: Sweep, row: SweepRow) -> str:
    found = sweep.speed_up(row)
    if found is None:
        return ""
    has_range = found.seeds > 1 and row is not sweep.reference
    return f"{found.mean:.2f}×" + (f" ({found.low:.2f}–{found.high:.2f})" if has_range else "")


def sweep_text(sweep: Sweep) -> str:
    """For a terminal: the answer, the table, what a reader must know."""
    rows = [headings(sweep), *(cells(sweep, row) for row in sweep.rows)]
    last = len(rows[0]) - (1 if rows[0][-1] == "why not" else 0)
    lines = table(rows, numeric=range(_NAMES, last))
    return "\n".join(
        [sweep.answer, *(f"  {line}" for line in lines), *sweep.remarks, sweep.machine_line]
    ).rstrip()


def sweep_html(sweep: Sweep) -> str:
    """For a notebook: bars are speed-ups, the longest that of the fastest row."""
    columns = headings(sweep)
    at = columns.index("speed-up")
    fastest = sweep.fastest
    best = sweep.speed_up(fastest) if fastest is not None else None
    rows = []
    for row in sweep.rows:
        shown: list[object] = [*cells(sweep, row)]
        found = sweep.speed_up(row)
        bar: object = ""
        if found is not None and best is not None:
            bar = html.bar(
                found.mean / best.mean, colour=_FASTEST if row is sweep.winner else _OTHER, width_px=120
            )
        rows.append([*shown[:at], bar, *shown[at:]])
    columns.insert(at, "")
    last = len(columns) - (1 if columns[-1] == "why not" else 0)
    numeric = [column for column in range(_NAMES, last) if column != at]
    drawn = html.table(columns, rows, numeric=numeric)
    notes = [html.note(text) for text in [*sweep.remarks, sweep.machine_line] if text]
    return str(html.block(html.heading(sweep.answer), drawn, *notes))
