"""The counters of a system without /proc (macOS, Windows), as far as psutil tells them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from accel.machine.affinity.processes_here import TRIAL_WORKER
from accel.machine.telemetry.child_processes import DEAREST_SHARE, REFRESH_S
from accel.machine.telemetry.counters import ChildCounters, ChildKind, HostCounters

if TYPE_CHECKING:
    import psutil

NO_LOADERS = "Loader workers are counted as other children: only Linux gives them a name."


class PsutilReader:
    """Asks psutil for what /proc would tell.

    >>> PsutilReader().read().available_bytes
    """

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        process_cpu: Callable[[], float] = time.process_time,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        import psutil

        self._clock, self._process_cpu, self._cpu_clock = clock, process_cpu, cpu_clock
        self._process = psutil.Process()
        self._children: list[tuple[psutil.Process, ChildKind]] = []
        self._search_at = -float("inf")
        self.notes: tuple[str, ...] = (NO_LOADERS,)

    def read(self) -> HostCounters:
        """The counters now."""
        import psutil

        per_cpu = psutil.cpu_times(percpu=True)
        process_cpu_s, time_s = self._process_cpu(), self._clock()
        idle = [each.idle + getattr(each, "iowait", 0.0) for each in per_cpu]
        stolen = [getattr(each, "steal", 0.0) for each in per_cpu]
        twice = [getattr(each, "guest", 0.0) + getattr(each, "guest_nice", 0.0) for each in per_cpu]
        total = [sum(each) - counted for each, counted in zip(per_cpu, twice, strict=True)]
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        return HostCounters(
            time_s,
            cpus=tuple(range(len(per_cpu))),
            busy=tuple(all_ - i - s for all_, i, s in zip(total, idle, stolen, strict=True)),
            total=tuple(total),
            stolen=sum(stolen),
            waiting=sum(getattr(each, "iowait", 0.0) for each in per_cpu),
            all_total=sum(total),
            process_cpu_s=process_cpu_s,
            process_rss_bytes=self._process.memory_info().rss,
            children=self._read_children(time_s),
            memory_bytes=memory.total,
            available_bytes=memory.available,
            swap_used_bytes=swap.used,
            load=os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        )

    def close(self) -> None:
        """Nothing is held open."""
        self._children = []

    def _read_children(self, time_s: float) -> tuple[ChildCounters, ...]:
        import psutil

        if time_s >= self._search_at:  # it looks at every process of the machine
            began = self._cpu_clock()
            self._children = [(child, _kind(child)) for child in self._process.children(recursive=True)]
            self._search_at = time_s + max(REFRESH_S, (self._cpu_clock() - began) / DEAREST_SHARE)
        found = []
        for child, kind in self._children:
            with suppress(psutil.Error):  # it has ended, or is another user's
                times, rss = child.cpu_times(), child.memory_info().rss
                found.append(ChildCounters(child.pid, kind, times.user + times.system, rss))
        return tuple(found)


def _kind(child: psutil.Process) -> ChildKind:
    import psutil

    try:
        return "trial" if TRIAL_WORKER in child.cmdline() else "other"
    except psutil.Error:
        return "other"
