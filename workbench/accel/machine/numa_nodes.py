"""NUMA nodes: which CPUs and how much memory belong together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accel.machine.cpu_lists import cpu_list
from accel.machine.cpu_tree import CpuTree
from accel.machine.system_files import kilobytes_in, text_of
from accel.units import in_number


@dataclass(frozen=True)
class NumaNode:
    """One node: its CPUs (none, where it is memory alone), and its memory; 0 bytes where that is not told."""

    number: int
    cpus: tuple[int, ...] = ()
    memory_bytes: int = 0
    free_bytes: int = 0

    def __str__(self) -> str:
        cpus = f"{in_number(len(self.cpus), 'CPU')} {cpu_list(self.cpus)}" if self.cpus else "no CPUs"
        memory = f"{self.free_bytes / 2**30:.1f} of {self.memory_bytes / 2**30:.1f} GiB free"
        return f"{cpus}, {memory}" if self.memory_bytes else cpus


def read_numa_nodes(root: Path | str, tree: CpuTree) -> tuple[NumaNode, ...]:
    """The nodes of a tree of CPUs, with the memory that `root`/sys tells of each.

    >>> print(read_numa_nodes("/", read_cpu_tree())[0])
    CPUs 0-1, 17.2 of 20.8 GiB free
    """
    found = []
    for number, cpus in tree.nodes:
        told = text_of(Path(root) / f"sys/devices/system/node/node{number}/meminfo")
        total, free = kilobytes_in(told, "MemTotal"), kilobytes_in(told, "MemFree")
        found.append(NumaNode(number, cpus, total or 0, free or 0))
    return tuple(found)
