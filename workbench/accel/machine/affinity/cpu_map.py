"""Where each logical CPU sits: its core, socket, NUMA node and last cache; and the same as boxes in boxes, for drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from accel.machine.core_kinds import economical_cpus
from accel.machine.cpu_lists import cpu_list
from accel.machine.cpu_tree import KnownCpu
from accel.machine.hardware import known_cpus
from accel.units import in_number


@dataclass(frozen=True)
class LogicalCpu:
    """One CPU of the kernel's count. `siblings` are the CPUs of its core, itself included: threads of one core.

    `cache_group` is the first CPU that shares its last cache (a CCD, on AMD); `speed` its highest clock in kHz,
    `capacity` how much it computes, the strongest being 1024; both are 0 where unknown; `is_economical`: the
    kernel lists it with the economical cores.
    """

    number: int
    core: int = 0
    socket: int = 0
    numa_node: int = 0
    siblings: tuple[int, ...] = ()
    cache_group: int = 0
    speed: int = 0
    capacity: int = 0
    is_economical: bool = False


@dataclass(frozen=True)
class CpuMap:
    """The logical CPUs of a machine that are online, by number.

    >>> [cpu.number for cpu in read_cpu_map().cpus]
    [0, 1]
    """

    cpus: tuple[LogicalCpu, ...]

    @cached_property
    def by_number(self) -> dict[int, LogicalCpu]:
        """The CPU of each number."""
        return {cpu.number: cpu for cpu in self.cpus}

    @property
    def is_hybrid(self) -> bool:
        """Whether there are fast and economical cores together."""
        return bool(self._economical)

    def is_fast(self, cpu: LogicalCpu) -> bool:
        """Whether a CPU is one of the fast ones; all are, where cores are of one kind."""
        return cpu.number not in self._economical

    @cached_property
    def _economical(self) -> frozenset[int]:
        return economical_cpus(self.cpus)

    def nodes_of(self, numbers: Iterable[int]) -> set[int]:
        """The NUMA nodes that these CPUs belong to."""
        return {self.by_number[number].numa_node for number in numbers if number in self.by_number}

    def cores_of(self, numbers: Iterable[int]) -> set[tuple[int, ...]]:
        """The cores that these CPUs belong to, each by its threads."""
        return {self.by_number[number].siblings for number in numbers if number in self.by_number}

    def in_order(self, numbers: Sequence[int] | None = None) -> list[LogicalCpu]:
        """CPUs in the order to give them out: the first thread of each core, fast cores first, node by node, neighbours of one
        cache together; then the second threads in the same order. `numbers`: only these (an affinity mask).
        """
        allowed = set(self.by_number if numbers is None else numbers)
        return sorted(
            (cpu for cpu in self.cpus if cpu.number in allowed),
            key=lambda cpu: (
                sorted(set(cpu.siblings) & allowed or {cpu.number}).index(cpu.number),
                not self.is_fast(cpu), cpu.numa_node, cpu.socket, cpu.cache_group, cpu.core, cpu.number,
            ),
        )  # fmt: skip


def read_cpu_map(root: Path | str = "/") -> CpuMap:
    """The CPUs below `root`; where the system does not tell, CPUs are cores of one socket and one node.

    >>> read_cpu_map().by_number[1].siblings
    (1,)
    """
    tree = known_cpus(root)
    nodes = {number: node for node, numbers in tree.nodes for number in numbers}
    return CpuMap(tuple(_logical_cpu(cpu, nodes.get(cpu.number, 0)) for cpu in tree.cpus))


def _logical_cpu(cpu: KnownCpu, node: int) -> LogicalCpu:
    last = cpu.last_cache
    return LogicalCpu(
        cpu.number,
        core=cpu.number if cpu.core is None else cpu.core,
        socket=cpu.socket or 0,
        numa_node=node,
        siblings=cpu.siblings or (cpu.number,),
        cache_group=min(last.shared) if last else cpu.number,
        speed=cpu.speed,
        capacity=cpu.capacity,
        is_economical=cpu.is_economical,
    )


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
            tuple(_nodes(cpus, is_named=len(nodes) > 1, cpu_map=cpu_map)),
        )
        for number, cpus in sockets
    )


def _nodes(cpus: Sequence[LogicalCpu], *, is_named: bool, cpu_map: CpuMap) -> list[CoreBox]:
    return [
        CoreBox("node", f"NUMA node {number}" if is_named else "", tuple(_caches(own, cpu_map)))
        for number, own in _groups(cpus, lambda cpu: cpu.numa_node)
    ]


def _caches(cpus: Sequence[LogicalCpu], cpu_map: CpuMap) -> list[CoreBox]:
    """Cores that share their last cache; where every core has its own, or all share one, that is not worth a box."""
    groups = _groups(cpus, lambda cpu: cpu.cache_group)
    is_worth_a_box = 1 < len(groups) < len(cpu_map.cores_of(cpu.number for cpu in cpus))
    if not is_worth_a_box:
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
