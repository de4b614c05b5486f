"""The matrix as a table for a notebook: one tint a kind of link, stronger the nearer; every cell says its label."""

from __future__ import annotations

from accel import html_parts
from accel.html_parts import Markup, text
from accel.machine.cpu_lists import cpu_list
from accel.machine.topology.device_links import Device
from accel.machine.topology.links import Link
from accel.machine.topology.topology import Topology
from accel.views.topology.machine_html import boxes
from accel.views.topology.words import drawing, no_gpu

_CELL = "padding:2px 8px;text-align:center;border:1px solid rgba(127,127,127,.25)"

_LAST = '<td style="padding:2px 10px;text-align:left;white-space:nowrap;opacity:.8">{}</td>'


def html(topology: Topology) -> Markup:
    """Matrix, legend, the machine as boxes, and advice; inline styles only."""
    drawn = [boxes(topology.machine)] if topology.machine.parts else [html_parts.note(drawing(topology))]
    nvlinks = [html_parts.note(line) for line in str(topology.nvlinks).splitlines()]
    if not topology.devices:
        return html_parts.block(html_parts.note(no_gpu(topology)), *drawn)
    head = "".join(f'<th scope="col" style="{_CELL}">{text(device.name)}</th>' for device in topology.devices)
    has_places = any(map(_place, topology.devices))
    head += "<td></td>" if has_places else ""
    rows = []
    for device, links in zip(topology.devices, topology.links, strict=True):
        place = _place(device)
        cells = "".join(
            _cell(topology, link, device, other) for link, other in zip(links, topology.devices, strict=True)
        )
        rows.append(
            f'<tr><th scope="row" style="{_CELL};text-align:left">{text(device.name)}</th>{cells}'
            f"{_LAST.format(text(place)) if has_places else ''}</tr>"
        )
    table = Markup(
        f'<table style="border-collapse:collapse"><thead><tr><td style="{_CELL}"></td>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table>"
    )
    notes = [html_parts.note(line) for line in topology.legend]
    advice = [html_parts.div("margin-top:4px", line) for line in topology.advice]
    source = [html_parts.note(topology.source)] if topology.source else []
    return html_parts.block(
        table, *notes, html_parts.heading("The machine"), *drawn, *nvlinks, *advice, *source
    )


def _place(device: Device) -> str:
    nodes = (
        f"NUMA node{'s' if device.other_nodes else ''} {cpu_list(device.near_nodes)}"
        if device.near_nodes
        else ""
    )
    cpus = f"CPUs {cpu_list(device.cpus)}" if device.cpus else ""
    return ", ".join(filter(None, (nodes, cpus, device.model)))


def _cell(topology: Topology, link: Link, first: Device, second: Device) -> Markup:
    if link.label == "X":
        return Markup(f'<td style="{_CELL};opacity:.75">X</td>')
    strength = {True: min(0.3 + 0.1 * link.nvlinks, 0.8), False: 0.04 * link.nearness}[link.nvlinks > 0]
    colour = "22,163,74" if link.nvlinks else "202,138,4"
    about = text(f"{link}; about {topology.gb_per_s(first, second):.0f} GB/s")
    return Markup(
        f'<td title="{about}" style="{_CELL};background-color:rgba({colour},{strength:.2f})">{text(link.label)}</td>'
    )
