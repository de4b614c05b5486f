"""The matrix of a topology as `nvidia-smi topo -m` prints it, which `read_matrix` reads again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from accel.machine.cpu_lists import cpu_list

if TYPE_CHECKING:
    from accel.machine.topology.device_links import Device, DeviceLinks


def written(topology: DeviceLinks) -> str:
    """The matrix with tabs between its cells, affinities where they are known, and the names of cards below it.

    >>> read_matrix(written(topology)).links == topology.links
    True
    """
    devices = topology.devices
    columns = _columns(devices)
    lines = ["\t".join(["", *(device.name for device in devices), *columns])]
    for device, row in zip(devices, topology.links, strict=True):
        cells = [" X " if link.label == "X" else link.label for link in row]
        lines.append(
            "\t".join([device.name, *cells, *(_near(device)[: len(columns)] if device.is_gpu else [])])
        )
    named = [
        f"  {device.name}: {device.model}"
        for device in devices
        if device.name.startswith("NIC") and device.model
    ]
    return "\n".join([*lines, *(["", "NIC Legend:", "", *named] if named else [])])


def _columns(devices: Sequence[Device]) -> list[str]:
    """The columns behind the links, up to the last that says something."""
    if any(device.memory_node is not None for device in devices):
        return ["CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    has_near = any(device.cpus or device.numa_node is not None for device in devices if device.is_gpu)
    return ["CPU Affinity", "NUMA Affinity"] if has_near else []


def _near(device: Device) -> list[str]:
    memory = "N/A" if device.memory_node is None else str(device.memory_node)
    return [cpu_list(device.cpus) or "N/A", cpu_list(device.near_nodes) or "N/A", memory]
