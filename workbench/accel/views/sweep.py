"""A sweep as text, as a table with bars (the same columns in both), and as a picture of time and quality."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accel import html_parts
from accel.errors import AccelError
from accel.html_parts import AMBER, BEST_COLOUR, BLUE, Markup
from accel.html_parts import text as escaped
from accel.measuring.sweep import Sweep, is_much_worse, shown_seconds
from accel.measuring.sweep_row import SweepRow
from accel.units import percent, table
from accel.views.figure_look import axis, look

if TYPE_CHECKING:
    import plotly.graph_objects

_FASTEST, _OTHER, _QUALITY = BEST_COLOUR, BLUE, AMBER
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
            shown_seconds(row.seconds), f"{row.samples_per_s:,.0f}" if row.samples else "", _speed_up(sweep, row),
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


def _speed_up(sweep: Sweep, row: SweepRow) -> str:
    found = sweep.speed_up(row)
    if found is None:
        return ""
    has_range = found.seeds > 1 and row is not sweep.reference
    return f"{found.mean:.2f}×" + (f" ({found.low:.2f}–{found.high:.2f})" if has_range else "")


def text(sweep: Sweep) -> str:
    """For a terminal: the answer, the table, what a reader must know."""
    rows = [headings(sweep), *(cells(sweep, row) for row in sweep.rows)]
    last = len(rows[0]) - (1 if rows[0][-1] == "why not" else 0)
    lines = table(rows, numeric=range(_NAMES, last))
    return "\n".join(
        [sweep.answer, *(f"  {line}" for line in lines), *sweep.remarks, sweep.machine_line]
    ).rstrip()


def html(sweep: Sweep) -> Markup:
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
            bar = html_parts.bar(
                found.mean / best.mean, colour=_FASTEST if row is sweep.winner else _OTHER, width_px=120
            )
        rows.append([*shown[:at], bar, *shown[at:]])
    columns.insert(at, "")
    last = len(columns) - (1 if columns[-1] == "why not" else 0)
    numeric = [column for column in range(_NAMES, last) if column != at]
    drawn = html_parts.table(columns, rows, numeric=numeric)
    notes = [html_parts.note(line) for line in [*sweep.remarks, sweep.machine_line] if line]
    return html_parts.block(html_parts.heading(sweep.answer), drawn, *notes)


def figure(sweep: Sweep) -> plotly.graph_objects.Figure:
    """One bar a configuration, the fastest in green; quality on an axis of its own where it is known."""
    import plotly.graph_objects as go

    rows = sweep.measured
    if not rows:
        raise AccelError("figure()", because="nothing was measured", do="Look at the rows for the reasons.")
    labels = [" ".join(filter(None, (row.configuration.label, row.configuration.backend))) for row in rows]
    values = [row.samples_per_s if sweep.compares_rates else row.seconds for row in rows]
    what = "samples/s" if sweep.compares_rates else "seconds of training"
    speed_ups = [found.mean if (found := sweep.speed_up(row)) else float("nan") for row in rows]
    bars = go.Bar(
        x=labels, y=values, name=what, customdata=speed_ups,
        marker={"color": [_FASTEST if row is sweep.winner else _OTHER for row in rows]},
        hovertemplate="%{x}: %{y:.4g} " + what + ", %{customdata:.2f}×<extra></extra>",
    )  # fmt: skip
    layout = look(
        sweep.answer, height=420, margin={"t": 44, "l": 60, "r": 60, "b": 44}, showlegend=False,
        xaxis={"title": "GPUs" if rows[0].configuration.on_gpus else "processes × threads", "type": "category"},
        yaxis=axis(what, rangemode="tozero"),
    )  # fmt: skip
    drawn = go.Figure(bars, layout=layout)
    if any(row.quality is not None for row in rows):
        drawn.add_trace(
            go.Scatter(
                x=labels, y=[row.quality for row in rows], name=escaped(sweep.metric), yaxis="y2", mode="lines+markers",
                line={"color": _QUALITY, "dash": "dot"}, marker={"symbol": "diamond", "size": 9},
                hovertemplate=f"%{{x}}: {escaped(sweep.metric)} %{{y:.4g}}<extra></extra>",
            )
        )  # fmt: skip
        drawn.update_layout(
            yaxis2={
                "title": escaped(sweep.metric), "overlaying": "y", "side": "right", "showgrid": False, "color": _QUALITY,
            }
        )  # fmt: skip
    return drawn
