"""An OpGraph drawn: layers from the inputs down, a box an operation, coloured by its type."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from accel.html_parts import OTHER_COLOUR, PALETTE
from accel.html_parts import text as escaped
from accel.opgraph.costed_parts import OpNode
from accel.opgraph.op_graph import OpGraph
from accel.units import scaled, size
from accel.views.figure_look import look

if TYPE_CHECKING:
    import plotly.graph_objects

COLOURS = (*PALETTE, OTHER_COLOUR)  # types beyond these share the last
ROW_PX, COLUMN_PX = 46, 210
SIDESTEP = 0.3  # of a column


def figure(graph: OpGraph) -> plotly.graph_objects.Figure:
    """Every operation one step below the lowest that it takes its data from; details are shown under the pointer."""
    import plotly.graph_objects as go

    places = layout(graph.nodes)
    colour = {op: COLOURS[min(i, len(COLOURS) - 1)] for i, op in enumerate(graph.op_types)}
    depth = 1 + max((-y for _, y in places), default=0)
    width = 1 + 2 * max((abs(x) for x, _ in places), default=0.0)
    drawn = go.Figure(
        go.Scatter(
            **_edges(graph.nodes, places), mode="lines", hoverinfo="skip", showlegend=False,
            line={"color": "rgba(127,127,127,.6)", "width": 1},
        ),
        layout=look(
            f"{graph.model_name}: {len(graph.nodes)} operations, {graph.parameters:,} parameters",
            height=120 + ROW_PX * int(depth), width=max(480, min(1400, int(COLUMN_PX * width) + 260)),
            xaxis={"visible": False, "range": [-width / 2 - 0.2, width / 2 + 0.6]},
            yaxis={"visible": False, "range": [-depth, 1]}, margin={"t": 60, "l": 10, "r": 10, "b": 10},
            legend={}, hoverlabel={"align": "left"},
        ),
    )  # fmt: skip
    for op in graph.op_types:
        these = [node for node in graph.nodes if node.op == op]
        drawn.add_trace(go.Scatter(
            x=[places[node.index][0] for node in these], y=[places[node.index][1] for node in these],
            mode="markers+text", name=escaped(op), text=[escaped(_label(node)) for node in these],
            textposition="middle right", hovertext=[_details(node) for node in these], hoverinfo="text",
            marker={"symbol": "square", "size": 16, "color": colour[op]},
        ))  # fmt: skip
    return drawn


def layout(nodes: tuple[OpNode, ...]) -> list[tuple[float, int]]:
    """(across, down) of each node: rows are counted downwards from 0, a row is centred on 0.

    >>> layout(graph.nodes)[0]
    (0.0, 0)
    """
    row_of: list[int] = []
    for node in nodes:
        row_of.append(1 + max((row_of[index] for index in node.inputs), default=-1))
    rows: dict[int, list[int]] = defaultdict(list)
    for index, row in enumerate(row_of):
        rows[row].append(index)
    return [
        (float(rows[row].index(index)) - (len(rows[row]) - 1) / 2, -row) for index, row in enumerate(row_of)
    ]


def _edges(nodes: tuple[OpNode, ...], places: list[tuple[float, int]]) -> dict[str, list[float | None]]:
    x: list[float | None] = []
    y: list[float | None] = []
    for node in nodes:
        for index in node.inputs:
            (from_x, from_y), (to_x, to_y) = places[index], places[node.index]
            aside = (
                min(from_x, to_x) - SIDESTEP
            )  # a connection that skips rows must not hide behind what it skips
            skips = to_y < from_y - 1
            x += [from_x, *([aside, aside] if skips else []), to_x, None]
            y += [from_y, *([from_y - 0.5, to_y + 0.5] if skips else []), to_y, None]
    return {"x": x, "y": y}


def _label(node: OpNode) -> str:
    return f" {node.op} {node.module}".rstrip()


def _details(node: OpNode) -> str:
    lines = [
        f"{node.op} (aten::{node.aten})", f"module {node.module or node.module_class}", f"{node.size_text} {node.dtype}",
        f"{node.parameters:,} parameters",
        "FLOPs: " + ("?" if node.flops is None else scaled(node.flops, "")),
        "bytes: " + ("?" if node.bytes is None else size(node.bytes)),
    ]  # fmt: skip
    if node.self_ms is not None:
        lines.append(f"measured: {node.self_ms:.3g} ms a step")
    return "<br>".join(map(escaped, lines))
