"""Where each logical CPU sits: its core, socket, NUMA node and last cache."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from accel.machine.core_kinds import economical_cpus
from accel.machine.cpu_tree import KnownCpu
from accel.machine.hardware import known_cpus


@dataclass(frozen=True)
class LogicalCpu:
    """One CPU of the kernel's count. `siblings` are the CPUs of its core, itself included: threads of one core.

    `cache_group` is the first CPU that shares its last cache (a CCD, on AMD); `speed` its highest clock in kHz,
    `capacity` how much it computes beside the strongest (1024), both 0 where the system does not tell; `is_economical`: the
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
