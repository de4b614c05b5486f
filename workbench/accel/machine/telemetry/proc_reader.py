"""The counters of a Linux system from /proc: a few files that stay open, and of each only what is needed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from accel.machine.cgroup import MemoryLimit, memory_limit, tightest_quota
from accel.machine.telemetry.child_processes import REFRESH_S, ChildProcesses
from accel.machine.telemetry.counters import HostCounters
from accel.processes.starting_mask import allowed_cpus

BYTES_OF_A_CPU = 160  # ten counters of up to 15 digits; the lines of the CPUs are the first ones
NO_CPUS = "The CPU use of each core is unknown: /proc/stat cannot be read here."
UNCOUNTED = (
    "There are {} more child processes than are watched: their CPU time and memory are not in the sum."
)
LIMITED = "Memory is that of this container or job, which has a limit of its own."
QUOTA_COUNTERS = (("periods", b"nr_periods"), ("stopped", b"nr_throttled"))
NO_MEMORY = "Free memory is unknown: /proc/meminfo cannot be read here."


class ProcReader:
    """Reads /proc without opening anything a second time.

    >>> reader = ProcReader()
    >>> reader.read().available_bytes
    6841593856
    """

    def __init__(
        self,
        proc: Path | str = "/proc",
        *,
        clock: Callable[[], float] = time.monotonic,
        process_cpu: Callable[[], float] = time.process_time,
        limit: Callable[[], MemoryLimit | None] = memory_limit,
        allowed: Sequence[int] | None = None,
        cgroups: Path | str = "/",
    ) -> None:
        proc = Path(proc)
        self._clock, self._process_cpu = clock, process_cpu
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._stat, self._meminfo = _opened(proc / "stat"), _opened(proc / "meminfo")
        self._statm, self._loadavg = _opened(proc / "self/statm"), _opened(proc / "loadavg")
        self._stat_bytes = BYTES_OF_A_CPU * (_cpu_count() + 2)
        self._allowed = tuple(allowed_cpus() if allowed is None else allowed)
        quota = tightest_quota(cgroups)
        self._quota_cores = quota[0] if quota else None
        self._cpu_stat = _opened(quota[1] / "cpu.stat") if quota else None
        self._children = ChildProcesses(os.getpid(), proc)
        self._limit, self._ask_limit, self._ask_limit_at = limit(), limit, -float("inf")
        missing = ((self._stat, NO_CPUS), (self._meminfo, NO_MEMORY))
        self._notes = tuple(sentence for file, sentence in missing if file is None)
        if self._is_limited(_memory(_read(self._meminfo, 4096)).get(b"MemTotal", 0)):
            self._notes += (LIMITED,)

    @property
    def notes(self) -> tuple[str, ...]:
        """What /proc does not report here, and what the counters leave out, each a sentence."""
        left_out = self._children.left_out
        return (*self._notes, UNCOUNTED.format(left_out)) if left_out else self._notes

    def read(self) -> HostCounters:
        """The counters now; the CPU time of this process and the moment are read one right after the other."""
        cpus, busy, total, stolen, waiting, all_total = _cpu_times(_read(self._stat, self._stat_bytes))
        process_cpu_s, time_s = self._process_cpu(), self._clock()
        children = self._children.read(time_s)
        statm = _read(self._statm, 128).split()
        memory = _memory(_read(self._meminfo, 4096))
        memory_bytes, available_bytes = self._within_limit(memory, time_s)
        load = _read(self._loadavg, 64).split()
        return HostCounters(
            time_s, cpus, busy, total, stolen, waiting, all_total,
            process_cpu_s=process_cpu_s,
            process_rss_bytes=int(statm[1]) * self._page_bytes if len(statm) > 1 else 0,
            children=children,
            memory_bytes=memory_bytes,
            available_bytes=available_bytes,
            swap_used_bytes=memory.get(b"SwapTotal", 0) - memory.get(b"SwapFree", 0),
            load=float(load[0]) if load else None,
            allowed=self._allowed, quota_cores=self._quota_cores, **_used_of_quota(_read(self._cpu_stat, 4096)),
        )  # fmt: skip

    def _is_limited(self, memory_bytes: int) -> bool:
        return self._limit is not None and self._limit.limit_bytes < memory_bytes

    def _within_limit(self, memory: dict[bytes, int], time_s: float) -> tuple[int, int]:
        """Memory and what is left of it: of the machine, or of the container or job where that has less."""
        memory_bytes, available_bytes = memory.get(b"MemTotal", 0), memory.get(b"MemAvailable", 0)
        if not self._is_limited(memory_bytes):
            return memory_bytes, available_bytes
        if time_s >= self._ask_limit_at:  # several files, in folders above each other
            self._limit, self._ask_limit_at = self._ask_limit() or self._limit, time_s + REFRESH_S
        assert self._limit is not None
        return self._limit.limit_bytes, min(available_bytes, self._limit.left_bytes)

    def close(self) -> None:
        """Close the files."""
        for file in (self._stat, self._meminfo, self._statm, self._loadavg, self._cpu_stat):
            if file is not None:
                os.close(file)
        self._stat = self._meminfo = self._statm = self._loadavg = self._cpu_stat = None
        self._children.close()


def _cpu_count() -> int:
    """Those that the kernel lists; `os.cpu_count` may be set to another number (PYTHON_CPU_COUNT, -X cpu_count)."""
    return max(1, os.sysconf("SC_NPROCESSORS_CONF"))


def _used_of_quota(cpu_stat: bytes) -> dict[str, float]:
    """CPU time used, periods, and those in which the quota was used up; older cgroups count the time elsewhere."""
    values = dict(line.split(b" ", 1) for line in cpu_stat.split(b"\n") if b" " in line)
    found = {name: float(values[key]) for name, key in QUOTA_COUNTERS if key in values}
    return found | ({"quota_used_s": float(values[b"usage_usec"]) / 1e6} if b"usage_usec" in values else {})


def _opened(path: Path) -> int | None:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None


def _read(file: int | None, most: int) -> bytes:
    if file is None:
        return b""
    try:
        return os.pread(file, most, 0)
    except OSError:
        return b""


Times = tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...], float, float, float]


def _cpu_times(stat: bytes) -> Times:
    """CPUs with their busy and total ticks; of all together what was stolen, spent waiting for a disk, and the total."""
    cpus, busy, total = [], [], []
    stolen = waiting = all_total = 0
    for line in stat.split(b"\n")[:-1]:  # the last one may be cut
        if not line.startswith(b"cpu"):
            break
        name, *rest = line.split()
        # guest and guest_nice, the last two, are in user and nice already
        user, nice, system, idle, iowait, irq, softirq, steal = (list(map(int, rest[:8])) + [0] * 8)[:8]
        working = user + nice + system + irq + softirq
        if name == b"cpu":
            stolen, waiting, all_total = steal, iowait, working + idle + iowait + steal
        else:
            cpus.append(int(name[3:]))
            busy.append(working)
            total.append(working + idle + iowait + steal)
    return tuple(cpus), tuple(busy), tuple(total), stolen, waiting, all_total


def _memory(meminfo: bytes) -> dict[bytes, int]:
    """The fields in bytes, up to the last one needed."""
    found: dict[bytes, int] = {}
    for line in meminfo.split(b"\n"):
        name, _, rest = line.partition(b":")
        if name in (b"MemTotal", b"MemAvailable", b"SwapTotal", b"SwapFree"):
            found[name] = int(rest.split()[0]) * 1024
            if name == b"SwapFree":
                break
    return found
