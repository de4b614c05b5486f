"""The CPUs as boxes in boxes, for drawing: socket → NUMA node → shared cache → core → thread of the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from accel.machine.affinity.cpu_map import CpuMap, LogicalCpu
from accel.machine.cpu_lists import cpu_list
from accel.units import in_number


@dataclass(frozen=True)
class CoreBox:
    """A part of the machine: its label ("" where it is the only one of its kind), and what is in it.

    A core holds CPUs, its threads; everything else holds boxes.
    """

    level: str
    label: str
    boxes: tuple[CoreBox, ...] = ()
    cpus: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As plain values, boxes in boxes."""
        return {
            "level": self.level, "label": self.label, "boxes": [box.to_dict() for box in self.boxes],
            "cpus": list(self.cpus),
        }  # fmt: skip

    @property
    def all_cpus(self) -> tuple[int, ...]:
        """The CPUs in it and in its boxes, in the order they are drawn."""
        return (*self.cpus, *(cpu for box in self.boxes for cpu in box.all_cpus))


def core_layout(cpu_map: CpuMap) -> tuple[CoreBox, ...]:
    """The machine's sockets, with every CPU of the map in one core of one of them.

    >>> [box.label for box in core_layout(read_cpu_map())]
    ['']
    """
    nodes = {cpu.numa_node for cpu in cpu_map.cpus}
    sockets = _groups(cpu_map.cpus, lambda cpu: cpu.socket)
    return tuple(
        CoreBox(
            "socket",
            f"socket {number}" if len(sockets) > 1 else "",
            tuple(_nodes(cpus, is_told=len(nodes) > 1, cpu_map=cpu_map)),
        )
        for number, cpus in sockets
    )


def _nodes(cpus: Sequence[LogicalCpu], *, is_told: bool, cpu_map: CpuMap) -> list[CoreBox]:
    return [
        CoreBox("node", f"NUMA node {number}" if is_told else "", tuple(_caches(own, cpu_map)))
        for number, own in _groups(cpus, lambda cpu: cpu.numa_node)
    ]


def _caches(cpus: Sequence[LogicalCpu], cpu_map: CpuMap) -> list[CoreBox]:
    """Cores that share their last cache; where every core has its own, or all share one, that is not worth a box."""
    groups = _groups(cpus, lambda cpu: cpu.cache_group)
    is_told = 1 < len(groups) < len(cpu_map.cores_of(cpu.number for cpu in cpus))
    if not is_told:
        return [CoreBox("cache", "", tuple(_cores(cpus, cpu_map)))]
    return [
        CoreBox("cache", f"cache of {_named([cpu.number for cpu in own])}", tuple(_cores(own, cpu_map)))
        for _, own in groups
    ]


def _cores(cpus: Sequence[LogicalCpu], cpu_map: CpuMap) -> list[CoreBox]:
    """By siblings, not by the core's number, which is counted anew on each die; fast cores first."""
    cores = _groups(cpus, lambda cpu: min(cpu.siblings, default=cpu.number))
    cores.sort(key=lambda found: not cpu_map.is_fast(found[1][0]))
    return [
        CoreBox("core", _core_label(own[0], cpu_map), cpus=tuple(cpu.number for cpu in own))
        for _, own in cores
    ]


def _core_label(cpu: LogicalCpu, cpu_map: CpuMap) -> str:
    kind = "" if not cpu_map.is_hybrid else " (fast)" if cpu_map.is_fast(cpu) else " (economical)"
    return f"core {cpu.core}{kind}"


def _named(numbers: list[int]) -> str:
    return f"{in_number(len(numbers), 'CPU')} {cpu_list(numbers)}"


def _groups(
    cpus: Sequence[LogicalCpu], key: Callable[[LogicalCpu], int]
) -> list[tuple[int, list[LogicalCpu]]]:
    found: dict[int, list[LogicalCpu]] = {}
    for cpu in sorted(cpus, key=lambda cpu: cpu.number):
        found.setdefault(key(cpu), []).append(cpu)
    return sorted(found.items())
