"""Memory: how much there is and may be used, swap, huge pages, and NUMA nodes; from /proc, /sys and the cgroup below any root."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from accel.machine.cgroup import memory_limit
from accel.machine.cpu_lists import cpu_list
from accel.machine.cpu_tree import CpuTree
from accel.machine.system_files import kilobytes_in, number_in, number_of, size_text, text_of
from accel.units import in_number


@dataclass(frozen=True)
class HugePages:
    """Pages of one size that are set aside for programs that ask for them."""

    size_bytes: int
    reserved: int
    free: int

    def __str__(self) -> str:
        return f"{self.reserved} × {size_text(self.size_bytes)} reserved, {self.free} of them free"


@dataclass(frozen=True)
class Memory:
    """Bytes of memory and swap; 0 where the system does not tell. `available_bytes` heeds the container's limit.

    `limit_bytes` is the container's (None: it has none), `limit_used_bytes` what it uses of that. `transparent_huge_pages` is the
    kernel's mode: always, madvise or never.
    """

    total_bytes: int = 0
    available_bytes: int = 0
    swap_bytes: int = 0
    swap_free_bytes: int = 0
    limit_bytes: int | None = None
    limit_used_bytes: int = 0
    transparent_huge_pages: str = ""
    huge_pages: tuple[HugePages, ...] = ()


def read_memory(root: Path | str = "/") -> Memory:
    """Read the memory below `root`; what is not there stays 0 or empty.

    >>> read_memory().transparent_huge_pages
    'madvise'
    """
    root = Path(root)
    meminfo = text_of(root / "proc/meminfo")
    total = kilobytes_in(meminfo, "MemTotal") or 0
    available = kilobytes_in(meminfo, "MemAvailable") or kilobytes_in(meminfo, "MemFree") or 0
    limit = memory_limit(root)
    if limit and total and limit.limit_bytes >= total:
        limit = None
    mode = re.search(r"\[(\w+)\]", text_of(root / "sys/kernel/mm/transparent_hugepage/enabled"))
    return Memory(
        total_bytes=total,
        available_bytes=min(available, limit.left_bytes) if limit else available,
        swap_bytes=kilobytes_in(meminfo, "SwapTotal") or 0,
        swap_free_bytes=kilobytes_in(meminfo, "SwapFree") or 0,
        limit_bytes=limit.limit_bytes if limit else None,
        limit_used_bytes=limit.used_bytes if limit else 0,
        transparent_huge_pages=mode.group(1) if mode else "",
        huge_pages=tuple(_huge_pages(root / "sys/kernel/mm/hugepages")),
    )


def _huge_pages(folder: Path) -> list[HugePages]:
    """Every size that the kernel knows, the smallest first; sizes without a page are kept, too."""
    found = []
    for path in folder.glob("hugepages-*kB"):
        size = number_in(path.name[len("hugepages-") : -len("kB")])
        if size:
            reserved, free = number_of(path / "nr_hugepages") or 0, number_of(path / "free_hugepages") or 0
            found.append(HugePages(size * 2**10, reserved, free))
    return sorted(found, key=lambda pages: pages.size_bytes)


@dataclass(frozen=True)
class NumaNode:
    """One node: its CPUs (none, where it is memory alone), and its memory; 0 bytes where that is unknown."""

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
        meminfo = text_of(Path(root) / f"sys/devices/system/node/node{number}/meminfo")
        total, free = kilobytes_in(meminfo, "MemTotal"), kilobytes_in(meminfo, "MemFree")
        found.append(NumaNode(number, cpus, total or 0, free or 0))
    return tuple(found)
