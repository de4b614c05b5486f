"""Bytes held over the profiled steps, one curve a device, the peak marked with the phase and module it lies in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.errors import AccelError
from accel.html_parts import text as escaped
from accel.profiling.phase_words import place_words
from accel.units import size
from accel.views.figure_look import GREY, axis, look

if TYPE_CHECKING:
    import plotly.graph_objects

    from accel.profiling.memory_use import MemoryUse
    from accel.profiling.profile import Profile

MIB = 2**20


def memory_figure(profile: Profile) -> plotly.graph_objects.Figure:
    """Steps of a staircase: an allocation holds until it is freed. Above what was held when the first step began."""
    import plotly.graph_objects as go

    curves = [use for use in profile.memory if use.points]
    if not curves:
        raise AccelError(
            'figure("memory")',
            because="this profile has no memory curve",
            do="Profile with --memory (in Python: memory=True).",
        )
    traces = [trace for use in curves for trace in (_curve(use), _peak(use))]
    layout = look(
        "Memory held by tensors, above the start of the first step",
        xaxis=axis("ms since the first profiled step began"),
        yaxis=axis("MiB"),
    )
    return go.Figure(traces, layout=layout)


def _curve(use: MemoryUse) -> plotly.graph_objects.Scatter:
    import plotly.graph_objects as go

    return go.Scatter(
        x=[point.ms for point in use.points],
        y=[point.bytes / MIB for point in use.points],
        text=[escaped(place_words(point.phase, point.module)) for point in use.points],
        line={"shape": "hv", "width": 1.5}, fill="tozeroy", name=escaped(use.device),
        hovertemplate="%{y:.3g} MiB at %{x:.4g} ms<br>%{text}<extra></extra>",
    )  # fmt: skip


def _peak(use: MemoryUse) -> plotly.graph_objects.Scatter:
    import plotly.graph_objects as go

    top = max(use.points, key=lambda point: point.bytes)
    label = f"peak {size(use.peak_bytes)}: {place_words(use.peak_phase, use.peak_module)}"
    return go.Scatter(
        x=[top.ms], y=[top.bytes / MIB], mode="markers+text", text=[escaped(label)], textposition="top center",
        marker={"symbol": "diamond", "size": 10, "color": GREY}, name=f"peak on {escaped(use.device)}",
        hoverinfo="skip",
    )  # fmt: skip
