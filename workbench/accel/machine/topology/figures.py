"""The topology as plotly figures: devices on a circle with their links, or the matrix in colours."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accel.errors import UnknownName

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from accel.machine.topology.devices import Device
    from accel.machine.topology.topology import Topology

KINDS = ("graph", "matrix")
_NVLINK, _PCIE, _CARD = "#16a34a", "#a16207", "#7c3aed"


def figure_of(topology: Topology, kind: str) -> go.Figure:
    """The figure of that kind; raises UnknownName for another."""
    if kind not in KINDS:
        raise UnknownName("figure", kind, KINDS)
    return _graph(topology) if kind == "graph" else _matrix(topology)


def _graph(topology: Topology) -> go.Figure:
    """Devices of a NUMA node stand together; thick lines are NVLinks, one width each, thin ones PCIe without leaving the node.

    Ways over SYS are left out: they join whatever else does not.
    """
    import plotly.graph_objects as go

    order = sorted(
        topology.devices, key=lambda d: (-1 if d.numa_node is None else d.numa_node, not d.is_gpu, d.name)
    )
    at = {device.name: _on_circle(position, len(order)) for position, device in enumerate(order)}
    figure = go.Figure()
    for first, second, link in topology.pairs(topology.devices):
        if link.label == "SYS":
            continue
        (x0, y0), (x1, y1) = at[first.name], at[second.name]
        width = 2.0 * link.nvlinks if link.nvlinks else 1.0
        says = f"{first.name} – {second.name}: {link}, about {topology.gb_per_s(link):.0f} GB/s"
        figure.add_scatter(
            x=[x0, x0 + (x1 - x0) / 3, x1], y=[y0, y0 + (y1 - y0) / 3, y1], mode="lines+text", hovertext=says, hoverinfo="text",
            text=["", link.label, ""], textposition="middle center", showlegend=False,
            line={"width": min(width, 12.0), "color": _NVLINK if link.nvlinks else _PCIE,
                  "dash": "solid" if link.nvlinks else "dot"},
        )  # fmt: skip
    for is_gpu, name, symbol, colour in (
        (True, "GPU", "square", _NVLINK),
        (False, "network card", "diamond", _CARD),
    ):
        group = [device for device in order if device.is_gpu is is_gpu]
        if group:
            figure.add_scatter(
                x=[at[d.name][0] for d in group], y=[at[d.name][1] for d in group], mode="markers+text",
                text=[d.name for d in group], hovertext=[_about(d) for d in group], hoverinfo="text", name=name,
                textposition="top center", marker={"size": 22, "symbol": symbol, "color": colour},
            )  # fmt: skip
    hidden = {"visible": False, "range": [-1.35, 1.35]}
    figure.update_layout(
        title="Links between devices (without those over SYS)", xaxis=hidden, yaxis=hidden | {"scaleanchor": "x"},
        template="none", font={"color": "#7d8590"}, paper_bgcolor="rgba(0,0,0,0)", plot_bgcolor="rgba(0,0,0,0)", height=520,
    )  # fmt: skip
    return figure


def _matrix(topology: Topology) -> go.Figure:
    import plotly.graph_objects as go

    names = [device.name for device in topology.devices]
    rates = [
        [None if link.label == "X" else topology.gb_per_s(link) for link in row] for row in topology.links
    ]
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


def _on_circle(position: int, count: int) -> tuple[float, float]:
    angle = math.pi / 2 - 2 * math.pi * (position + 0.5) / max(count, 1)
    return math.cos(angle), math.sin(angle)


def _about(device: Device) -> str:
    node = "" if device.numa_node is None else f", NUMA node {device.numa_node}"
    return f"{device.name}{f' ({device.model})' if device.model else ''}{node}"
