"""What Linux says about the processors: model, cores, sockets, caches, NUMA nodes, instruction sets, cgroup quota.

Everything is read below a root directory, so that a copied tree of another machine reads the same.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ISA_OF_INTEREST = (
    "avx2", "fma", "avx512f", "avx512bw", "avx512_vnni", "avx512_bf16", "avx512_fp16", "avx_vnni",
    "amx_tile", "amx_int8", "amx_bf16", "amx_fp16", "asimd", "asimdhp", "sve", "bf16", "i8mm",
)  # fmt: skip
"""Instruction sets that change which kernels torch and oneDNN choose, by their names in /proc/cpuinfo."""


@dataclass(frozen=True)
class Cache:
    """One kind of cache: how large one is, and how many of them there are."""

    name: str
    bytes_each: int
    count: int

    def __str__(self) -> str:
        size = (
            f"{self.bytes_each // 2**20} MiB"
            if self.bytes_each >= 2**20
            else f"{self.bytes_each // 2**10} KiB"
        )
        return f"{self.name} {self.count} × {size}"


@dataclass(frozen=True)
class Cpu:
    """The processors below one root; a count that the system does not tell is 0, a name is empty."""

    model: str = ""
    isa: tuple[str, ...] = ()
    logical_cores: int = 0
    physical_cores: int = 0
    sockets: int = 0
    caches: tuple[Cache, ...] = ()
    numa_nodes: tuple[tuple[int, ...], ...] = ()
    quota_cores: float | None = None


def read_cpu(root: Path | str = "/") -> Cpu:
    """Read the processors from `root`/sys and `root`/proc; what is not there stays empty.

    >>> read_cpu().logical_cores
    2
    """
    root = Path(root)
    model, isa = _model_and_isa(_text(root / "proc/cpuinfo"))
    folder = root / "sys/devices/system/cpu"
    cpus = sorted(folder.glob("cpu[0-9]*"), key=lambda path: int(path.name[3:]))
    online = [cpu for cpu in cpus if _text(cpu / "online") != "0"]
    packages = [_text(cpu / "topology/physical_package_id") for cpu in online]
    cores = {
        (package, _text(cpu / "topology/core_id")) for package, cpu in zip(packages, online, strict=True)
    }
    return Cpu(
        model=model,
        isa=isa,
        logical_cores=len(online),
        physical_cores=len({core for core in cores if core[1]}),
        sockets=len({package for package in packages if package}),
        caches=_caches(online),
        numa_nodes=_numa_nodes(root),
        quota_cores=_cgroup_quota(root),
    )


def parse_cpu_list(listing: str) -> tuple[int, ...]:
    """The numbers in a kernel's CPU list.

    >>> parse_cpu_list("0-2,8")
    (0, 1, 2, 8)
    """
    numbers: list[int] = []
    for part in filter(None, listing.strip().split(",")):
        first, _, last = part.partition("-")
        numbers += range(int(first), int(last or first) + 1)
    return tuple(numbers)


def cpu_list(cpus: Sequence[int]) -> str:
    """Cores as the kernel lists them.

    >>> cpu_list((0, 1, 2, 8))
    '0-2,8'
    """
    runs: list[list[int]] = []
    for cpu in cpus:
        if runs and cpu == runs[-1][-1] + 1:
            runs[-1].append(cpu)
        else:
            runs.append([cpu])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def usable_cores(quota: float | None) -> int:
    """How many cores this process may use: its affinity mask, capped by the cgroup's quota."""
    try:
        allowed = len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS and Windows
        allowed = os.cpu_count() or 1
    return max(1, min(allowed, math.ceil(quota))) if quota else allowed


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:  # missing in virtual machines and containers, or offline
        return ""


def _model_and_isa(cpuinfo: str) -> tuple[str, tuple[str, ...]]:
    model = re.search(r"^(?:model name|Model|cpu model)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    flags = re.search(r"^(?:flags|Features)\s*:\s*(.+)$", cpuinfo, re.MULTILINE)
    present = set(flags.group(1).split()) if flags else set()
    return model.group(1).strip() if model else "", tuple(name for name in ISA_OF_INTEREST if name in present)


def _caches(cpus: list[Path]) -> tuple[Cache, ...]:
    """Group by name and size; a cache shared by several cores counts once."""
    found: dict[tuple[str, int], set[str]] = {}
    for cpu in cpus:
        for index in sorted(cpu.glob("cache/index[0-9]*")):
            size = _bytes(_text(index / "size"))
            if not size:
                continue
            kind = {"Data": "d", "Instruction": "i"}.get(_text(index / "type"), "")
            name = f"L{_text(index / 'level')}{kind}"
            found.setdefault((name, size), set()).add(_text(index / "shared_cpu_list") or cpu.name)
    return tuple(Cache(name, size, len(sharers)) for (name, size), sharers in sorted(found.items()))


def _bytes(size: str) -> int:
    match = re.fullmatch(r"(\d+)([KMG]?)", size)
    return int(match.group(1)) * {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}[match.group(2)] if match else 0


def _numa_nodes(root: Path) -> tuple[tuple[int, ...], ...]:
    nodes = sorted((root / "sys/devices/system/node").glob("node[0-9]*"), key=lambda path: int(path.name[4:]))
    return tuple(parse_cpu_list(_text(node / "cpulist")) for node in nodes)


def _cgroup_quota(root: Path) -> float | None:
    """The tightest CPU quota on the way from this process's cgroup up to the top, in cores; both cgroup versions."""
    quotas: list[float] = []
    for line in _text(root / "proc/self/cgroup").splitlines() or ["0::/"]:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        folder = mount / path.lstrip("/")
        for level in (folder, *folder.parents):
            quota = _quota_of(level)
            if quota is not None:
                quotas.append(quota)
            if level == mount:
                break
    return min(quotas, default=None)


def _quota_of(folder: Path) -> float | None:
    unified = _text(folder / "cpu.max").split()
    quota, period = (
        unified
        if len(unified) == 2
        else (_text(folder / "cpu.cfs_quota_us"), _text(folder / "cpu.cfs_period_us"))
    )
    return int(quota) / int(period) if quota.isdigit() and period.isdigit() and int(period) else None
