"""Whether other processes, or a quota, held up the CPUs or GPUs during a measurement: a rate measured then is too low.

Time of this process and its children is not others' time; that holds for children that ended during the measurement too.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from accel.machine.cgroup import quota_periods, tightest_quota
from accel.machine.peaks import timing
from accel.machine.telemetry.child_processes import BEGAN, STIME, UTIME, descendants
from accel.processes.starting_mask import allowed_cpus

PATIENCE = 2  # times the budget of a rate, until one that others disturb is left as it is
ENOUGH = 0.75  # of a core for each of our threads; one busy neighbour on two cores leaves 0.6 to 0.9
GPU_AT_WORK_PERCENT = 10
LOOKS, LOOK_EVERY_S = 6, 0.02  # longer than a few ticks, by which the system counts
BUSY_SHARE, FULL_SHARE = 0.2, 0.9  # of the CPUs
IDLE_COLUMNS = (3, 4)  # of a line in /proc/stat: idle, waiting for input
GUEST_COLUMNS = 8  # from here on a virtual machine's time, which is part of the first columns already


@dataclass(frozen=True)
class Taken:
    """What others took: a share of the time of `cpus` CPUs. `stopped`: the share of periods in which the quota was used up."""

    share: float
    cpus: int
    stopped: float = 0.0
    quota_cores: float | None = None

    def cores_of(self, usable: int) -> float:
        """How many of the `usable` cores others took. CPUs beyond a quota count as theirs first: we could not use those anyway.

        >>> Taken(share=0.5, cpus=4).cores_of(4), Taken(share=0.5, cpus=64).cores_of(4)
        (2.0, 0.0)
        """
        return max(0.0, self.share * self.cpus - max(0, self.cpus - usable))


class OtherWork:
    """What others took of the CPUs while this was open, and whether that left a core for each of so many threads of ours.

    >>> with OtherWork(threads=2) as others:
    ...     measure()
    >>> others.share, others.disturbed
    (0.02, False)

    Children that have been waited for count as ours; with `counts_children` also those that run, where what is measured runs
    in workers. If a child ended and no process waited for it, its time is unknown, and `taken` is None. Only Linux gives
    these times; on other systems nothing counts as disturbed.
    Our own CPU time alone would not show it: OpenMP's threads spin, and so look busy, while one of them has no core.
    """

    def __init__(
        self,
        threads: int = 1,
        cpus: Sequence[int] | None = None,
        *,
        root: Path | str = "/",
        own_s: Callable[[], float] | None = None,
        counts_children: bool = False,
    ) -> None:
        self._threads, self._cpus = threads, allowed_cpus() if cpus is None else cpus
        self._stat, self._own_s = Path(root) / "proc/stat", own_s or _own_s
        self._counts_children = counts_children
        self._quota = tightest_quota(root)
        self.is_known = False
        self.share = 0.0  # of the time of these CPUs
        self.stopped = 0.0  # of the periods of a CPU quota: those in which it was used up

    @property
    def cpus(self) -> int:
        """How many CPUs were watched."""
        return len(self._cpus)

    @property
    def quota_cores(self) -> float | None:
        """The container's CPU quota, in cores; None where there is none."""
        return self._quota[0] if self._quota else None

    @property
    def taken(self) -> Taken | None:
        """All that was found out, once this is closed; None where that could not be known."""
        return Taken(self.share, self.cpus, self.stopped, self.quota_cores) if self.is_known else None

    @property
    def disturbed(self) -> bool:
        """Whether too little was left, so that a rate is too low."""
        cores_left = len(self._cpus) * (1.0 - self.share)
        wanted = min(self._threads, len(self._cpus))
        return cores_left < ENOUGH * wanted

    def __enter__(self) -> OtherWork:
        self._before, self._periods = self._read(), self._read_periods()
        self._family = FamilyTime.now() if self._stat.exists() and self._counts_children else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (busy, whole, own), (busy_now, whole_now, own_now) = self._before, self._read()
        ours = own_now - own if self._family is None else self._family.used_until(FamilyTime.now())
        if whole_now > whole and ours is not None:
            self.is_known = True
            self.share = min(max(0.0, (busy_now - busy) - ours) / (whole_now - whole), 1.0)
        (periods, stopped), (periods_now, stopped_now) = self._periods, self._read_periods()
        if periods_now > periods:
            self.stopped = (stopped_now - stopped) / (periods_now - periods)

    def _read_periods(self) -> tuple[int, int]:
        return quota_periods(self._quota[1]) if self._quota else (0, 0)

    def _read(self) -> tuple[float, float, float]:
        """Seconds that the CPUs worked and that they were there, and those of our own."""
        try:
            lines = self._stat.read_text().splitlines()
        except OSError:
            return 0.0, 0.0, 0.0
        wanted = {f"cpu{number}" for number in self._cpus}
        busy = whole = 0.0
        for name, *values in (line.split() for line in lines if line.startswith("cpu")):
            if name in wanted:
                ticks = [int(value) for value in values[:GUEST_COLUMNS]]
                whole += sum(ticks)
                busy += sum(ticks) - sum(ticks[column] for column in IDLE_COLUMNS)
        return busy / _ticks_per_s(), whole / _ticks_per_s(), self._own_s()


def undisturbed(measure: Callable[[int], float], threads: int) -> tuple[float, bool]:
    """The best rate of as many attempts as it takes until one is undisturbed, and whether there was none in reasonable time.

    >>> undisturbed(lambda attempt: moving(1 << 28, "cpu", wall), threads=2)
    (41.2e9, False)

    `measure` gets the number of attempts before this one.
    """
    best, until = 0.0, time.perf_counter() + PATIENCE * timing.BUDGET_S
    for attempt in count():
        with OtherWork(threads) as others:
            best = max(best, measure(attempt))
        if not others.disturbed or time.perf_counter() > until:
            break
    return best, others.disturbed


def gpus_at_work(nvml: Any | None, uuids: Sequence[str]) -> dict[int, int]:
    """Those GPUs that compute for somebody, and how many percent of the time; empty where the driver does not tell.

    >>> with opened_nvml() as nvml:
    ...     gpus_at_work(nvml, ["5f2c…"])
    {0: 87}
    """
    found: dict[int, int] = {}
    if nvml is None:
        return found
    for index, uuid in enumerate(uuids):
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
            percent = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except nvml.NVMLError:  # a part of a GPU has no such figure
            continue
        if percent >= GPU_AT_WORK_PERCENT:
            found[index] = percent
    return found


def threads_of_others(
    cores: int, *, root: Path | str = "/", pause: Callable[[float], object] = time.sleep
) -> float:
    """Estimate how many threads of other programs want one of our cores; 0 if they use little or the system cannot say.

    >>> threads_of_others(cores=2)          # with three programs that compute
    3.0

    While this process sleeps, CPU use shows how many threads the others run, up to the number of CPUs. If all CPUs are busy and
    this process may use all of them, the system's count of runnable threads says more.
    """
    with OtherWork(root=root, counts_children=True) as others:
        found = []
        for _ in range(LOOKS):
            pause(LOOK_EVERY_S)
            found.append(_runnable(root))
    if others.share < BUSY_SHARE:
        return 0.0
    used = others.share * cores
    counts_all = others.share >= FULL_SHARE and cores >= (os.cpu_count() or cores)
    return max(used, float(median(found)) - 1.0) if counts_all else used


def _runnable(root: Path | str) -> int:
    """Threads that run or wait for a CPU, this one among them."""
    try:
        return int((Path(root) / "proc/loadavg").read_text().split()[3].partition("/")[0])
    except (OSError, IndexError, ValueError):
        return 1


def _own_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _ticks_per_s() -> float:
    return float(os.sysconf("SC_CLK_TCK")) if hasattr(os, "sysconf") else 100.0


PARENT = 1  # in /proc/<pid>/stat, counted after the name
ROUNDING_S = 0.02  # each figure is in whole ticks


@dataclass(frozen=True)
class ProcessTime:
    """Seconds of one process: its own, and those of the children that it has waited for."""

    parent: int
    own_s: float
    waited_s: float = 0.0

    @property
    def whole_s(self) -> float:
        return self.own_s + self.waited_s


@dataclass(frozen=True)
class FamilyTime:
    """The processes that there are, by their id and when they began: an id is given away again.

    >>> before = FamilyTime.now(); work(); before.used_until(FamilyTime.now())
    1.25
    """

    processes: dict[tuple[int, int], ProcessTime]

    @classmethod
    def now(cls) -> FamilyTime:
        """A look at this process and all below it."""
        return cls(dict(filter(None, map(_read, [os.getpid(), *descendants(os.getpid())]))))

    def used_until(self, later: FamilyTime) -> float | None:
        """Seconds of CPU from this look to a later one; None where a process ended that no remaining one has waited for."""
        lost: dict[int, float] = {}
        for key, gone in self.processes.items():
            if key not in later.processes:
                lost[gone.parent] = lost.get(gone.parent, 0.0) + gone.whole_s - ROUNDING_S
        waited = {
            key[0]: times.waited_s - self.processes[key].waited_s
            for key, times in later.processes.items()
            if key in self.processes
        }
        if any(waited.get(parent, -1.0) < seconds for parent, seconds in lost.items()):
            return None
        return later._whole_s - self._whole_s

    @property
    def _whole_s(self) -> float:
        return sum(times.whole_s for times in self.processes.values())


def _read(pid: int) -> tuple[tuple[int, int], ProcessTime] | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:  # it has ended
        return None
    fields = stat[stat.rindex(b")") + 2 :].split()
    own, waited = sum(map(int, fields[UTIME : STIME + 1])), sum(map(int, fields[STIME + 1 : STIME + 3]))
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return (pid, int(fields[BEGAN])), ProcessTime(int(fields[PARENT]), own * tick_s, waited * tick_s)
