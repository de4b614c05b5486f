"""Which devices sit at which NUMA node, as far as a topology tells: by its columns, by /sys, or by the labels of its links."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from accel.machine.cpu_lists import cpu_list
from accel.machine.topology.device_links import Device

if TYPE_CHECKING:
    from accel.machine.topology.device_links import DeviceLinks

WITHIN_A_NODE = ("PIX", "PXB", "PHB", "NODE")


@dataclass(frozen=True)
class NodeDevices:
    """The devices of one NUMA node, its CPUs and its socket where they are known.

    `how` says where it is known from: "reported" by a column or /sys; "labels" where only SYS between devices tells them apart;
    "unknown" for devices of which nothing tells where they are.
    """

    name: str
    devices: tuple[Device, ...]
    cpus: tuple[int, ...] = ()
    socket: int | None = None
    how: Literal["reported", "labels", "unknown"] = "reported"


def places_of(topology: DeviceLinks) -> list[NodeDevices]:
    """The NUMA nodes with their devices, or what the labels tell of them; last the devices without a place.

    >>> [(place.name, len(place.devices)) for place in places_of(topology)]
    [('NUMA node 0', 4), ('NUMA node 1', 4)]
    """
    devices = [*topology.devices, *topology.other_cards]
    near = _near_nodes(topology, devices)
    at: dict[tuple[int, ...], list[Device]] = {(node.number,): [] for node in topology.nodes}
    for device in devices:
        if device.name in near:
            at.setdefault(near[device.name], []).append(device)
    rest = [device for device in devices if device.name not in near]
    at_nodes = [_at_nodes(topology, nodes, found) for nodes, found in sorted(at.items())]
    groups = components(rest, lambda a, b: _label(topology, a, b) in WITHIN_A_NODE)
    return [*at_nodes, *([_unknown(rest)] if at_nodes and rest else _by_labels(topology, groups))]


def components(
    devices: Iterable[Device], are_together: Callable[[Device, Device], bool]
) -> list[list[Device]]:
    """Devices in groups: each is together with another of its group, and with none of the other groups; in their order."""
    order = list(devices)
    groups: list[list[Device]] = []
    for device in order:
        joined = [group for group in groups if any(are_together(device, other) for other in group)]
        groups = [group for group in groups if group not in joined]
        groups.append([*(other for group in joined for other in group), device])
    return sorted(
        (sorted(group, key=order.index) for group in groups), key=lambda group: order.index(group[0])
    )


def _near_nodes(topology: DeviceLinks, devices: Sequence[Device]) -> dict[str, tuple[int, ...]]:
    """The nodes near each device: as reported, else those of a device to which its way stays within a node, as for cards."""
    near = {device.name: device.near_nodes for device in devices if device.near_nodes}
    if len(topology.nodes) == 1:
        return {device.name: (topology.nodes[0].number,) for device in devices} | near
    for label in WITHIN_A_NODE:
        placed = [device for device in devices if device.name in near]
        for device in devices:
            neighbour = next((other for other in placed if _label(topology, device, other) == label), None)
            if device.name not in near and neighbour is not None:
                near[device.name] = near[neighbour.name]
    return near


def _label(topology: DeviceLinks, first: Device, second: Device) -> str:
    """The label of the link between two; PHB for cards outside the matrix that are below one host bridge, empty for others."""
    if first.name in topology.names and second.name in topology.names:
        return topology.link(first.name, second.name).label
    return "PHB" if first.path and first.path[:1] == second.path[:1] else ""


def _at_nodes(topology: DeviceLinks, nodes: tuple[int, ...], devices: Sequence[Device]) -> NodeDevices:
    node = next((node for node in topology.nodes if (node.number,) == nodes), None)
    lists = {device.cpus for device in devices if device.cpus}
    cpus = node.cpus if node else lists.pop() if len(lists) == 1 else ()
    name = f"NUMA node {nodes[0]}" if len(nodes) == 1 else f"NUMA nodes {cpu_list(nodes)}"
    return NodeDevices(name, tuple(devices), cpus, node.socket if node else None)


def _by_labels(topology: DeviceLinks, groups: list[list[Device]]) -> list[NodeDevices]:
    """Groups that SYS keeps apart: where each two are, or where they fall into two sides in one way only, these are nodes."""
    if not groups:
        return []
    apart = [
        [any(_label(topology, a, b) == "SYS" for a in first for b in second) for second in groups]
        for first in groups
    ]
    is_each_alone = all(apart[a][b] for a in range(len(groups)) for b in range(a))
    sides = [[number] for number in range(len(groups))] if is_each_alone else _two_sides(apart)
    if sides is None or len(groups) == 1:
        return [_unknown([device for group in groups for device in group])]
    order = [*topology.devices, *topology.other_cards]
    found = [sorted((d for n in side for d in groups[n]), key=order.index) for side in sides]
    letters = [*string.ascii_uppercase, *(str(number) for number in range(27, len(found) + 1))]
    return [
        NodeDevices(f"Node {letter}", tuple(side), how="labels")
        for letter, side in zip(letters, found, strict=False)
    ]


def _two_sides(apart: list[list[bool]]) -> list[list[int]] | None:
    """The two sides into which groups fall; None where they do not, or do so in several ways."""
    side = {0: 0}
    waiting = [0]
    while waiting:
        here = waiting.pop()
        for there in (number for number, is_apart in enumerate(apart[here]) if is_apart):
            if there not in side:
                side[there] = 1 - side[here]
                waiting.append(there)
            elif side[there] == side[here]:
                return None
    if len(side) < len(apart):
        return None
    return [[number for number in sorted(side) if side[number] == which] for which in (0, 1)]


def _unknown(devices: Sequence[Device]) -> NodeDevices:
    return NodeDevices("Place unknown", tuple(devices), how="unknown")
