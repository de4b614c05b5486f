"""Time (or rate) as bars and quality as points, over processes × threads."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from accel.errors import AccelError

if TYPE_CHECKING:
    import plotly.graph_objects

    from accel.measuring.sweep import Sweep

_GREY, _LINE, _FASTEST, _OTHER, _QUALITY = (
    "#7d8590",
    "rgba(127,127,127,0.25)",
    "#16a34a",
    "#2563eb",
    "#b45309",
)


def sweep_figure(sweep: Sweep) -> plotly.graph_objects.Figure:
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
    figure = go.Figure(bars, layout={
        "title": {"text": escape(sweep.answer), "font": {"size": 13}}, "height": 420, "showlegend": False,
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": _GREY, "size": 12},
        "margin": {"t": 44, "l": 60, "r": 60, "b": 44},
        "xaxis": {"title": "GPUs" if rows[0].configuration.on_gpus else "processes × threads", "type": "category"},
        "yaxis": {"title": what, "rangemode": "tozero", "gridcolor": _LINE},
    })  # fmt: skip
    if any(row.quality is not None for row in rows):
        figure.add_trace(
            go.Scatter(
                x=labels, y=[row.quality for row in rows], name=escape(sweep.metric), yaxis="y2", mode="lines+markers",
                line={"color": _QUALITY, "dash": "dot"}, marker={"symbol": "diamond", "size": 9},
                hovertemplate="%{x}: " + escape(sweep.metric) + " %{y:.4g}<extra></extra>",
            )
        )  # fmt: skip
        figure.update_layout(
            yaxis2={
                "title": escape(sweep.metric), "overlaying": "y", "side": "right", "showgrid": False, "color": _QUALITY,
            }
        )  # fmt: skip
    return figure
