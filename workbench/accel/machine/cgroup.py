"""What a container, a batch job or a service may use of the machine: the limits of this process's cgroup, in both versions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from accel.machine.cpu_lists import cpus_in
from accel.machine.system_files import number_in, number_of, text_of


@dataclass(frozen=True)
class MemoryLimit:
    """The memory that a cgroup may use, and what it uses that cannot be given back at once."""

    limit_bytes: int
    used_bytes: int

    @property
    def left_bytes(self) -> int:
        """What it may still take."""
        return max(0, self.limit_bytes - self.used_bytes)


def cpu_quota(root: Path | str = "/") -> float | None:
    """The tightest CPU quota on the way from this process's cgroup up to the top, in cores; None where there is none.

    >>> cpu_quota()
    1.5
    """
    found = tightest_quota(root)
    return found[0] if found else None


def tightest_quota(root: Path | str = "/") -> tuple[float, Path] | None:
    """The same with the folder of the cgroup that has it, whose cpu.stat counts how often it was used up."""
    quotas = ((_quota_of(folder), folder) for folder in _folders(Path(root), "cpu"))
    limited = [(quota, folder) for quota, folder in quotas if quota]
    return min(limited, key=lambda one: one[0], default=None)


def quota_periods(folder: Path) -> tuple[int, int]:
    """Periods of the quota of this cgroup so far, and those in which it was used up and stopped everything."""
    counters = dict(line.split(maxsplit=1) for line in text_of(folder / "cpu.stat").splitlines())
    return int(counters.get("nr_periods", 0)), int(counters.get("nr_throttled", 0))


def cpu_set(root: Path | str = "/") -> tuple[int, ...]:
    """The CPUs that the cgroup is confined to; empty where that is unknown."""
    for folder in _folders(Path(root), "cpuset"):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            if cpus := cpus_in(text_of(folder / name)):
                return cpus
    return ()


def memory_limit(root: Path | str = "/") -> MemoryLimit | None:
    """The limit that leaves the least memory, on the way up; None where there is none.

    Above `memory.high` a process is slowed down until it has given memory back, so that it is a limit as well. Older cgroups
    write the largest number there is where they mean none; `memory.py` drops what is above the machine's memory.
    """
    found = (_memory_of(folder) for folder in _folders(Path(root), "memory"))
    return min((limit for limit in found if limit), key=lambda limit: limit.left_bytes, default=None)


def _folders(root: Path, controller: str) -> list[Path]:
    """Where a controller's files may be: the folder of this process's cgroup, then its parents.

    In a container the path may be the host's, which is not there: then the mount itself is the container's folder.
    """
    found: list[Path] = []
    for line in text_of(root / "proc/self/cgroup").splitlines() or ["0::/"]:
        names, _, path = line.partition(":")[2].partition(
            ":"
        )  # "4:cpu,cpuacct:/a/b", or "0::/a/b" in version 2
        if names and controller not in names.split(","):
            continue
        below = [part for part in path.split("/") if part not in ("", ".", "..")]
        for mount in [controller, names] if names else ["", "unified"]:
            top = root / "sys/fs/cgroup" / mount
            found += [top.joinpath(*below[:depth]) for depth in range(len(below), -1, -1)]
    return found


def _quota_of(folder: Path) -> float | None:
    words = text_of(folder / "cpu.max").split()
    if len(words) != 2:
        words = [text_of(folder / "cpu.cfs_quota_us"), text_of(folder / "cpu.cfs_period_us")]
    quota, period = map(number_in, words)
    return quota / period if quota and period else None


def _memory_of(folder: Path) -> MemoryLimit | None:
    limits = (number_of(folder / name) for name in ("memory.max", "memory.high", "memory.limit_in_bytes"))
    limit = min((limit for limit in limits if limit), default=None)
    if limit is None:
        return None
    used = number_of(folder / "memory.current") or number_of(folder / "memory.usage_in_bytes") or 0
    given_back = 0  # file pages that were not used for a while: dropped as soon as memory is wanted
    for line in text_of(folder / "memory.stat").splitlines():
        name, _, value = line.partition(" ")
        if name in ("inactive_file", "total_inactive_file"):
            given_back = max(given_back, number_in(value) or 0)
    return MemoryLimit(limit, max(0, used - given_back))
