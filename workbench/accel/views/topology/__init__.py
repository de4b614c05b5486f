"""How a topology looks: the printed matrix with its machine as a tree, a table for a notebook, plotly figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.errors import UnknownName
from accel.machine.topology.topology import Topology
from accel.views.figure_look import look
from accel.views.topology.machine_figure import machine_figure
from accel.views.topology.matrix_html import html as html
from accel.views.topology.words import drawing, no_gpu

if TYPE_CHECKING:
    import plotly.graph_objects as go

KINDS = ("graph", "matrix")


def text(topology: Topology) -> str:
    """The matrix, what its labels mean, the machine, and what follows."""
    if not topology.devices:
        return f"{no_gpu(topology)}\n{drawing(topology)}"
    lines = [topology.matrix, "", *topology.legend, "", drawing(topology), "", *topology.advice]
    return "\n".join(lines).rstrip("\n")


def figure(topology: Topology, kind: str = "graph") -> go.Figure:
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
    return go.Figure(
        go.Heatmap(
            x=names, y=names, z=rates, text=labels, texttemplate="%{text}", colorscale="Viridis", xgap=2, ygap=2,
            colorbar={"title": "GB/s, about"}, hovertemplate="%{y} – %{x}: %{text}, about %{z:.0f} GB/s<extra></extra>",
        ),
        layout=look(
            "Links between devices", template="none", height=520, xaxis={"automargin": True},
            yaxis={"automargin": True, "autorange": "reversed", "scaleanchor": "x"},
        ),
    )  # fmt: skip
