"""What the system tells of each logical CPU, read once: `Cpu` (how many of what) and `CpuMap` (where each sits) follow."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accel.machine.cpu_lists import cpus_in
from accel.machine.system_files import number_of, numbered, size_in, text_of

ECONOMICAL = (
    "cpu_atom",
    "cpu_lowpower",
)  # folders in which Linux lists the economical cores of hybrid processors


@dataclass(frozen=True)
class CpuCache:
    """One cache as one CPU sees it: `kind` is d(ata), i(nstruction) or empty, `shared` are the CPUs that share it."""

    level: int
    kind: str
    size_bytes: int
    shared: tuple[int, ...]

    @property
    def name(self) -> str:
        """As the field calls it: L1d, L1i, L2, L3."""
        return f"L{self.level}{self.kind}"


@dataclass(frozen=True)
class KnownCpu:
    """One logical CPU; what is unknown is None, 0 or empty.

    `siblings` are the threads of its core, itself included; `speed` is its highest clock in kHz, `capacity` how much it computes,
    the strongest CPU of the machine being 1024.
    """

    number: int
    core: int | None = None
    socket: int | None = None
    siblings: tuple[int, ...] = ()
    caches: tuple[CpuCache, ...] = ()
    speed: int = 0
    capacity: int = 0
    is_economical: bool = False

    @property
    def last_cache(self) -> CpuCache | None:
        """The cache farthest from the core."""
        return max(self.caches, key=lambda cache: cache.level, default=None)


@dataclass(frozen=True)
class CpuTree:
    """The logical CPUs that are online, and the CPUs of each NUMA node by its number."""

    cpus: tuple[KnownCpu, ...] = ()
    nodes: tuple[tuple[int, tuple[int, ...]], ...] = ()
    source: str = "/sys"

    @property
    def tells_cores(self) -> bool:
        """Whether it is known which CPUs belong to which core."""
        return any(cpu.siblings or cpu.core is not None for cpu in self.cpus)


def read_cpu_tree(root: Path | str = "/") -> CpuTree:
    """Read `root`/sys; a pure function of what lies there, which never raises.

    >>> [cpu.core for cpu in read_cpu_tree().cpus]
    [0, 1]
    """
    devices = Path(root) / "sys/devices"
    folders = numbered(devices / "system/cpu", "cpu")
    economical = {cpu for name in ECONOMICAL for cpu in cpus_in(text_of(devices / name / "cpus"))}
    nodes = numbered(devices / "system/node", "node")
    return CpuTree(
        cpus=tuple(
            _cpu(number, folder, number in economical)
            for number, folder in folders
            if text_of(folder / "online") != "0"
        ),
        nodes=tuple((number, cpus_in(text_of(folder / "cpulist"))) for number, folder in nodes),
    )


def _cpu(number: int, folder: Path, is_economical: bool) -> KnownCpu:
    topology = folder / "topology"
    listed = text_of(topology / "thread_siblings_list") or text_of(topology / "core_cpus_list")
    return KnownCpu(
        number,
        core=number_of(topology / "core_id"),
        socket=number_of(topology / "physical_package_id"),
        siblings=_with(number, listed) if listed else (),
        caches=tuple(_caches(number, folder)),
        speed=number_of(folder / "cpufreq/cpuinfo_max_freq") or 0,
        capacity=number_of(folder / "cpu_capacity") or 0,
        is_economical=is_economical,
    )


def _caches(number: int, folder: Path) -> list[CpuCache]:
    found = []
    for _, index in numbered(folder / "cache", "index"):
        kind = {"Data": "d", "Instruction": "i"}.get(text_of(index / "type"), "")
        shared = _with(number, text_of(index / "shared_cpu_list"))
        found.append(
            CpuCache(number_of(index / "level") or 0, kind, size_in(text_of(index / "size")), shared)
        )
    return [cache for cache in found if cache.level]


def _with(number: int, listing: str) -> tuple[int, ...]:
    """The CPUs of a list to which this one belongs; itself alone where the list is another's, which is damage."""
    cpus = cpus_in(listing)
    return cpus if number in cpus else (number,)
