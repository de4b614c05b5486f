"""Quality over the seconds of training, a line for each plan and seed; the target is a dotted one."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from accel.errors import AccelError

if TYPE_CHECKING:
    import plotly.graph_objects

    from accel.measuring.time_to_quality import TimeToQuality

COLOURS = ("#6b7280", "#2563eb", "#15803d", "#b45309", "#7c3aed", "#0e7490", "#be185d", "#4d7c0f", "#854d0e")
_GREY, _LINE = "#7d8590", "rgba(127,127,127,0.25)"


def quality_figure(result: TimeToQuality) -> plotly.graph_objects.Figure:
    """One colour a plan, the baseline grey; plans are told apart by their marks too."""
    import plotly.graph_objects as go

    if not any(curve.points for row in result.rows for curve in row.curves):
        raise AccelError(
            "figure()", because="nothing was evaluated", do="Look at the result's rows for the reason."
        )
    lines = [
        go.Scatter(
            x=[point.seconds for point in curve.points], y=[point.value for point in curve.points],
            name=escape(row.plan), legendgroup=row.plan, showlegend=curve is row.curves[0], mode="lines+markers",
            line={"color": COLOURS[number % len(COLOURS)]}, marker={"symbol": number % 8, "size": 6},
            customdata=[point.steps for point in curve.points],
            hovertemplate=f"%{{y:.4g}} after %{{x:.3g}} s, %{{customdata:,}} steps (seed {curve.seed})",
        )
        for number, row in enumerate(result.rows)
        for curve in row.curves
    ]  # fmt: skip
    axis = {"gridcolor": _LINE, "zerolinecolor": _LINE}
    figure = go.Figure(lines, layout={
        "title": {"text": escape(result.headline), "font": {"size": 14}}, "height": 440,
        "paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "font": {"color": _GREY, "size": 12},
        "margin": {"t": 44, "l": 60, "r": 20, "b": 44}, "legend": {"orientation": "h", "y": -0.2},
        "xaxis": {"title": "seconds of training", **axis}, "yaxis": {"title": escape(result.metric), **axis},
    })  # fmt: skip
    if result.target is not None:
        figure.add_hline(
            y=result.target.value,
            line={"color": _GREY, "dash": "dot"},
            annotation_text=escape(str(result.target)),
        )
    return figure
