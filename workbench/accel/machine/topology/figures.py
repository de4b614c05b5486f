"""The topology as plotly figures: the machine with its boxes and NVLinks, or the matrix in colours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.errors import UnknownName
from accel.machine.topology.machine_figure import machine_figure

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from accel.machine.topology.topology import Topology

KINDS = ("graph", "matrix")


def figure_of(topology: Topology, kind: str) -> go.Figure:
    """The figure of that kind; raises UnknownName for another."""
    if kind not in KINDS:
        raise UnknownName("figure", kind, KINDS)
    return machine_figure(topology) if kind == "graph" else _matrix(topology)


def _matrix(topology: Topology) -> go.Figure:
    import plotly.graph_objects as go

    names = [device.name for device in topology.devices]
    devices = topology.devices
    rates = [[None if a is b else topology.gb_per_s(a, b) for b in devices] for a in devices]
    labels = [[link.label for link in row] for row in topology.links]
    figure = go.Figure(
        go.Heatmap(
            x=names, y=names, z=rates, text=labels, texttemplate="%{text}", colorscale="Viridis", xgap=2, ygap=2,
            colorbar={"title": "GB/s, about"}, hovertemplate="%{y} – %{x}: %{text}, about %{z:.0f} GB/s<extra></extra>",
        )
    )  # fmt: skip
    figure.update_layout(
        title="Links between devices", yaxis={"autorange": "reversed", "scaleanchor": "x"}, template="none",
        font={"color": "#7d8590"}, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", height=520,
    )  # fmt: skip
    return figure
