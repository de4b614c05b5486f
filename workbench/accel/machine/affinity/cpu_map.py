"""Where each logical CPU sits: its core, socket, NUMA node and last cache, from /sys below any root."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from accel.machine.cpu import parse_cpu_list


@dataclass(frozen=True)
class LogicalCpu:
    """One CPU of the kernel's count. `siblings` are the CPUs of its core, itself included: threads of one core.

    `cache_group` is the first CPU that shares its last cache (a CCD, on AMD); `speed` its highest clock in kHz, 0 where the
    system does not tell.
    """

    number: int
    core: int = 0
    socket: int = 0
    numa_node: int = 0
    siblings: tuple[int, ...] = ()
    cache_group: int = 0
    speed: int = 0

    @property
    def is_first_of_core(self) -> bool:
        """Whether it is its core's first thread."""
        return self.number == min(self.siblings, default=self.number)


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
    def has_smt(self) -> bool:
        """Whether any core runs two threads or more."""
        return any(len(cpu.siblings) > 1 for cpu in self.cpus)

    @property
    def is_hybrid(self) -> bool:
        """Whether cores differ in speed by more than a turbo bin: fast and economical ones together."""
        return len({self.is_fast(cpu) for cpu in self.cpus}) > 1

    def is_fast(self, cpu: LogicalCpu) -> bool:
        """Whether a CPU is one of the fast ones; favoured cores are a turbo bin faster than others of their kind."""
        return cpu.speed >= 0.85 * max((each.speed for each in self.cpus), default=0)

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
    """The CPUs below `root`; where /sys does not tell, CPUs are cores of one socket and one node."""
    root = Path(root)
    folder = root / "sys/devices/system/cpu"
    folders = sorted(folder.glob("cpu[0-9]*"), key=lambda path: int(path.name[3:]))
    nodes = _nodes(root)
    online = [each for each in folders if _text(each / "online") != "0"]
    return CpuMap(tuple(_cpu(each, nodes) for each in online))


def _cpu(folder: Path, nodes: dict[int, int]) -> LogicalCpu:
    number = int(folder.name[3:])
    topology = folder / "topology"
    siblings = parse_cpu_list(_text(topology / "thread_siblings_list") or _text(topology / "core_cpus_list"))
    return LogicalCpu(
        number,
        core=_number(topology / "core_id", number),
        socket=_number(topology / "physical_package_id", 0),
        numa_node=nodes.get(number, 0),
        siblings=siblings or (number,),
        cache_group=_cache_group(folder, number),
        speed=_number(folder / "cpufreq/cpuinfo_max_freq", 0),
    )


def _cache_group(folder: Path, number: int) -> int:
    """The first CPU that shares the largest cache level that several CPUs share."""
    levels = [
        (_number(index / "level", 0), parse_cpu_list(_text(index / "shared_cpu_list")))
        for index in folder.glob("cache/index[0-9]*")
    ]
    shared = max(levels, default=(0, ()), key=lambda found: found[0])[1]
    return min(shared, default=number)


def _nodes(root: Path) -> dict[int, int]:
    found = {}
    for node in (root / "sys/devices/system/node").glob("node[0-9]*"):
        for number in parse_cpu_list(_text(node / "cpulist")):
            found[number] = int(node.name[4:])
    return found


def _number(path: Path, otherwise: int) -> int:
    text = _text(path)
    return int(text) if text.lstrip("-").isdigit() and int(text) >= 0 else otherwise


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
