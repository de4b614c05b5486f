"""The machine as a plotly figure: nodes and bridges as boxes, devices in a row, NVLinks as arcs below, NVSwitch as a node."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from accel.html_parts import GREEN, VIOLET
from accel.machine.cpu_lists import cpu_list
from accel.machine.topology.device_links import Device
from accel.machine.topology.links import Link
from accel.machine.topology.topology import Topology
from accel.views.figure_look import look
from accel.views.topology.machine_layout import LABEL_HEIGHT, PADDING, MachineLayout, lay_out
from accel.views.topology.words import drawing

if TYPE_CHECKING:
    import plotly.graph_objects as go

GPU, CARD = GREEN, VIOLET
PIXELS = 92  # a device with the room round it
POINTS = 33  # of an arc
BEHIND = -0.1  # where lines begin: behind the square of a device
LARGEST_LABELLED = 40  # pairs; of more, only the tooltips tell


def machine_figure(topology: Topology) -> go.Figure:
    """The figure; a device's boxes show its ways over PCIe, so only NVLinks are drawn as lines."""
    import plotly.graph_objects as go

    layout = lay_out(topology.machine)
    figure = go.Figure()
    depth = max(_draw_arcs(figure, topology, layout), _draw_switches(figure, topology, layout))
    for box in layout.boxes:
        figure.add_shape(
            type="rect", x0=box.left, x1=box.right, y0=box.bottom, y1=box.top, layer="below",
            line={"color": "rgba(127,127,127,.6)", "width": 1}, fillcolor="rgba(127,127,127,.07)",
        )  # fmt: skip
        for number, line in enumerate(box.label):
            figure.add_annotation(
                x=box.left + PADDING / 2, y=box.top - PADDING / 2 - LABEL_HEIGHT * number, text=line, showarrow=False,
                xanchor="left", yanchor="top", font={"size": 12},
            )  # fmt: skip
    _draw_devices(figure, layout)
    bottom = layout.bottom - depth
    figure.update_layout(look(
        _title(topology), showlegend=bool(depth), legend={"orientation": "h", "y": 0}, template="none",
        xaxis={"visible": False, "range": [-PADDING, layout.width + PADDING], "fixedrange": True},
        yaxis={"visible": False, "range": [bottom - PADDING, layout.top + PADDING], "fixedrange": True},
        margin={"l": 10, "r": 10, "t": 50, "b": 40}, width=max(420, 20 + int(PIXELS * layout.width)),
        height=100 + int(PIXELS * 0.9 * (layout.top - bottom)),
    ))  # fmt: skip
    return figure


def _title(topology: Topology) -> str:
    about = topology.machine.about
    return f"The machine{f', {about}' if about else ''}" if topology.machine.parts else drawing(topology)


def _draw_devices(figure: go.Figure, layout: MachineLayout) -> None:
    for is_gpu, name, symbol, colour in (
        (True, "GPU", "square", GPU),
        (False, "network card", "circle", CARD),
    ):
        group = [device for device in layout.devices if device.is_gpu is is_gpu]
        if group:
            figure.add_scatter(
                x=[layout.places[device.name] for device in group], y=[0.0] * len(group), mode="markers+text",
                text=[device.name[:9] for device in group], textfont={"color": "#ffffff", "size": 11},
                hovertext=[_about(device) for device in group], hoverinfo="text", name=name, showlegend=False,
                marker={"size": 50, "symbol": symbol, "color": colour},
            )  # fmt: skip


def _draw_arcs(figure: go.Figure, topology: Topology, layout: MachineLayout) -> float:
    """One arc a pair, thicker for more links; gives how far down they reach."""
    pairs = topology.nvlinks.pairs
    most = max((link.nvlinks for *_, link in pairs), default=1)
    named: set[int] = set()
    deepest = 0.0
    for first, second, link in sorted(pairs, key=lambda pair: -pair[2].nvlinks):
        start, end = sorted((layout.places[first.name], layout.places[second.name]))
        depth = 0.4 + 0.34 * (end - start)
        deepest = max(deepest, depth)
        angles = [math.pi * n / (POINTS - 1) for n in range(POINTS)]
        across = [(start + end) / 2 - (end - start) / 2 * math.cos(angle) for angle in angles]
        down = [layout.bottom - depth * math.sin(angle) for angle in angles]
        share = link.nvlinks / most
        says = f"{first.name} – {second.name}: {link}, about {topology.gb_per_s(first, second):.0f} GB/s in one direction"
        figure.add_scatter(
            x=[start, *across, end], y=[BEHIND, *down, BEHIND], mode="lines", hovertext=says, hoverinfo="text",
            name=str(link), legendgroup=link.label, showlegend=link.nvlinks not in named,
            line={"width": 1 + 4 * share, "color": GPU, "dash": "solid" if share > 0.5 else "dot"},
        )  # fmt: skip
        if len(pairs) <= LARGEST_LABELLED:
            figure.add_annotation(
                x=(start + end) / 2, y=layout.bottom - depth, text=link.label, showarrow=False, borderpad=2,
                font={"size": 10, "color": "#ffffff"}, bgcolor=GPU,
            )  # fmt: skip
        named.add(link.nvlinks)
    return deepest + 0.25 if pairs else 0.0


def _draw_switches(figure: go.Figure, topology: Topology, layout: MachineLayout) -> float:
    """A node for the NVSwitches of each group, joined with its GPUs; gives how far down it reaches."""
    depth = 1.1
    for number, switch in enumerate(topology.nvlinks.switches):
        places = [layout.places[gpu.name] for gpu in switch.gpus]
        middle, height = sum(places) / len(places), layout.bottom - depth
        link = Link(f"NV{switch.nvlinks}")
        rate = max(topology.gb_per_s(a, b) for a, b, _ in topology.pairs(switch.gpus))
        says = f"{switch}; about {rate:.0f} GB/s in one direction"
        lines = [
            point
            for place in places
            for point in ((place, BEHIND), (place, layout.bottom), (middle, height), (None, None))
        ]
        figure.add_scatter(
            x=[x for x, _ in lines], y=[y for _, y in lines], mode="lines", name=f"{link} to NVSwitch", hoverinfo="skip",
            line={"width": 3, "color": GPU}, showlegend=number == 0,
        )  # fmt: skip
        figure.add_scatter(
            x=[middle], y=[height], mode="markers+text", text=["NVSwitch"], textfont={"color": "#ffffff", "size": 11},
            hovertext=[says], hoverinfo="text", showlegend=False, marker={"size": 64, "symbol": "hexagon", "color": GPU},
        )  # fmt: skip
    return depth + 0.4 if topology.nvlinks.switches else 0.0


def _about(device: Device) -> str:
    node = f"NUMA node {cpu_list(device.near_nodes)}" if device.near_nodes else ""
    cpus = f"CPUs {cpu_list(device.cpus)}" if device.cpus else ""
    return "<br>".join(filter(None, (device.name, device.model, node, cpus)))
