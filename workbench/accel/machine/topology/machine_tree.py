"""The machine as parts within parts: sockets, NUMA nodes with their CPUs, host bridges, PCIe switches, GPUs and network cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from accel.machine.cpu_lists import cpu_list
from accel.machine.topology.device_links import Device
from accel.machine.topology.placing import NodeDevices, components, places_of

if TYPE_CHECKING:
    from accel.machine.topology.device_links import DeviceLinks

# What joins devices of which only the labels are known, from the outside to the inside.
LEVELS = (
    ("PCIe host bridge", ("PIX", "PXB", "PHB")),
    ("PCIe switches", ("PIX", "PXB")),
    ("PCIe switch", ("PIX",)),
)


@dataclass(frozen=True)
class MachinePart:
    """A part of the machine with what lies within it; `device` is set for GPUs and network cards, which have nothing within."""

    kind: Literal["machine", "socket", "node", "bridge", "device"]
    name: str
    about: str = ""
    parts: tuple[MachinePart, ...] = ()
    device: Device | None = None

    @property
    def devices(self) -> tuple[Device, ...]:
        """Every device within, in the order in which they are drawn."""
        if self.device is not None:
            return (self.device,)
        return tuple(device for part in self.parts for device in part.devices)

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def to_dict(self) -> dict[str, Any]:
        """The part and all within as plain values."""
        return {
            "kind": self.kind, "name": self.name, "about": self.about, "parts": [part.to_dict() for part in self.parts],
        }  # fmt: skip


def machine_tree(topology: DeviceLinks) -> MachinePart:
    """The machine of a topology, as far as that tells it: bridges by /sys where it was read, else by the labels of links.

    >>> print(machine_tree(topology))
    Machine
    └─ NUMA node 0: CPUs 0-27,56-83
       └─ PCIe switches
          ├─ GPU0
          └─ GPU1
    """
    places = places_of(topology)
    parts: list[MachinePart] = []
    for socket, group in groupby(places, key=lambda place: place.socket):
        nodes = tuple(_node(topology, place) for place in group)
        parts += nodes if socket is None else [MachinePart("socket", f"Socket {socket}", parts=nodes)]
    how = ""
    if any(place.how == "labels" for place in places):
        how = "as far as the labels tell; the matrix names no CPUs"
    elif any(place.how == "unknown" for place in places):
        how = "nothing tells the place of some devices"
    return MachinePart("machine", "Machine", how, tuple(parts))


def _node(topology: DeviceLinks, place: NodeDevices) -> MachinePart:
    cpus = f"CPUs {cpu_list(place.cpus)}" if place.cpus else ""
    return MachinePart("node", place.name, cpus, _within(topology, place.devices))


def _within(topology: DeviceLinks, devices: Sequence[Device]) -> tuple[MachinePart, ...]:
    if devices and all(device.path for device in devices):
        return tuple(_by_path(list(devices), 0))
    return tuple(_by_labels(topology, devices, 0))


def _by_path(devices: list[Device], depth: int) -> list[MachinePart]:
    """Devices below the bridges that they have in common; a bridge with one thing behind it is left out."""
    parts: list[MachinePart] = []
    devices = sorted(devices, key=lambda device: device.path[: depth + 1])
    for bridge, group in groupby(devices, key=lambda device: device.path[depth]):
        below = list(group)
        is_at_end = any(len(device.path) <= depth + 1 for device in below)  # two ports of one card
        if depth > 0 and (len(below) == 1 or is_at_end):
            parts += map(_device, below)
            continue
        if depth > 0 and len({device.path[: depth + 2] for device in below}) == 1:
            parts += _by_path(below, depth + 1)
            continue
        ends = any(len(device.path) <= depth + 2 for device in below)
        kind = "PCIe host bridge" if depth == 0 else "PCIe bridge" if ends else "PCIe switch"
        parts.append(
            MachinePart("bridge", kind, bridge.removeprefix("pci"), tuple(_by_path(below, depth + 1)))
        )
    return parts


def _by_labels(topology: DeviceLinks, devices: Sequence[Device], level: int) -> list[MachinePart]:
    """Devices in groups by what they reach each other through; NVLinks between GPUs hide what lies below them."""
    if level == len(LEVELS):
        return [_device(device) for device in devices]
    kind, labels = LEVELS[level]

    def are_together(first: Device, second: Device) -> bool:
        if first.name not in topology.names or second.name not in topology.names:
            return False
        return topology.link(first.name, second.name).label in labels

    parts: list[MachinePart] = []
    for group in components(devices, are_together):
        within = _by_labels(topology, group, level + 1)
        is_alone = len(within) == 1
        parts += within if is_alone else [MachinePart("bridge", kind, parts=tuple(within))]
    return parts


def _device(device: Device) -> MachinePart:
    about = device.model
    if device.memory_node is not None:
        about = ", ".join(filter(None, (about, f"its memory is NUMA node {device.memory_node}")))
    return MachinePart("device", device.name, about, device=device)


def _lines(part: MachinePart) -> list[str]:
    about = f": {part.about}" if part.about else ""
    lines = [f"{part.name}{about}"]
    for number, inner in enumerate(part.parts):
        is_last = number == len(part.parts) - 1
        first, *rest = _lines(inner)
        lines.append(f"{'└─' if is_last else '├─'} {first}")
        lines += [f"{'  ' if is_last else '│ '} {line}" for line in rest]
    return lines
