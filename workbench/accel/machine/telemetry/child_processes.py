"""The children of a process and theirs, from /proc: found now and then, read each time from files that stay open."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from accel.machine.affinity.processes_here import LOADER_WORKER, TRIAL_WORKER
from accel.machine.telemetry.counters import ChildCounters, ChildKind

REFRESH_S = 2.0
DEAREST_SHARE = 0.005  # of the time until the next search, that a search may take
MOST_CHILDREN = 128  # each holds a file open, of the thousand that a process may have

UTIME, STIME, BEGAN, RSS = (
    11,
    12,
    19,
    21,
)  # in /proc/<pid>/stat, counted after the name, which may hold spaces


class ChildProcesses:
    """Reads CPU time and memory of the processes that a process started, and of those that they started.

    >>> ChildProcesses(os.getpid()).read(time.monotonic())
    (ChildCounters(pid=4711, kind='loader', cpu_s=1.25, rss_bytes=314572800),)
    """

    def __init__(
        self, pid: int, proc: Path | str = "/proc", *, cpu_clock: Callable[[], float] = time.thread_time,
        since_boot: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:  # fmt: skip
        self._pid, self._proc, self._cpu_clock, self._since_boot = pid, str(proc), cpu_clock, since_boot
        self._read_at = float("inf")  # seconds since the system was started, as the kernel dates processes
        self._open: dict[int, int] = {}
        self._kinds: dict[int, ChildKind] = {}
        self._found_at: dict[int, float] = {}
        self._search_at = self._may_search_at = -float("inf")
        self._started: frozenset[int] | None = None  # by the main thread, when it was last looked
        self.left_out = 0
        self._tick_s, self._page_bytes = 1 / os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")

    def read(self, time_s: float) -> tuple[ChildCounters, ...]:
        """The children that are there: found anew when the main thread has started or lost some, as each epoch does with loader
        workers, and every two seconds for those of others; less often where the search is dear.
        """
        before, self._started = self._started, self._of_main_thread()
        since, self._read_at = self._read_at, self._since_boot()
        if time_s >= self._search_at or (self._started != before and time_s >= self._may_search_at):
            began = self._cpu_clock()
            self._search(time_s)
            self._may_search_at = time_s + (self._cpu_clock() - began) / DEAREST_SHARE
            self._search_at = max(time_s + REFRESH_S, self._may_search_at)
        for pid, found_at in self._found_at.items():
            if self._kinds[pid] == "other" and time_s - found_at <= REFRESH_S:
                self._kinds[pid] = _kind(pid, self._proc)  # a worker gets its name after it was forked
        read = (self._read(pid, since) for pid in list(self._open))
        return tuple(child for child in read if child is not None)

    def _of_main_thread(self) -> frozenset[int]:
        return frozenset(map(int, _bytes(f"{self._proc}/{self._pid}/task/{self._pid}/children").split()))

    def close(self) -> None:
        """Close the files."""
        for pid in list(self._open):
            self._forget(pid)

    def _search(self, time_s: float) -> None:
        found = descendants(self._pid, self._proc)
        self.left_out = max(0, len(found) - MOST_CHILDREN)
        found = found[:MOST_CHILDREN]
        for pid in set(self._open) - set(found):
            self._forget(pid)
        for pid in found:
            if pid not in self._open:
                try:
                    self._open[pid] = os.open(f"{self._proc}/{pid}/stat", os.O_RDONLY | os.O_CLOEXEC)
                except OSError:  # it has ended, or is another user's
                    continue
                self._found_at[pid], self._kinds[pid] = time_s, _kind(pid, self._proc)

    def _read(self, pid: int, since: float) -> ChildCounters | None:
        try:
            stat = os.pread(self._open[pid], 1024, 0)
        except OSError:  # it has ended
            self._forget(pid)
            return None
        fields = stat[stat.rindex(b")") + 2 :].split()
        began_now = int(fields[BEGAN]) * self._tick_s >= since
        cpu_s = (int(fields[UTIME]) + int(fields[STIME])) * self._tick_s
        return ChildCounters(pid, self._kinds[pid], cpu_s, int(fields[RSS]) * self._page_bytes, began_now)

    def _forget(self, pid: int) -> None:
        os.close(self._open.pop(pid))
        del self._kinds[pid], self._found_at[pid]


def descendants(pid: int, proc: str = "/proc") -> list[int]:
    """The processes below one, by what the kernel lists for its threads; by everyone's parent where it lists nothing."""
    if not os.path.exists(f"{proc}/{pid}/task/{pid}/children"):
        return _by_parents(pid, proc)
    found: list[int] = []
    todo = [pid]
    while todo:
        of_one = _children(todo.pop(), proc)
        found += of_one
        todo += of_one
    return found


def _children(pid: int, proc: str) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"{proc}/{pid}/task")
    except OSError:  # it has ended
        return []
    for thread in threads:
        found += map(int, _bytes(f"{proc}/{pid}/task/{thread}/children").split())
    return found


def _by_parents(pid: int, proc: str) -> list[int]:
    """For kernels built without the list of children: one look at every process of the machine."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir(proc):
        if name.isdigit() and (stat := _bytes(f"{proc}/{name}/stat")):
            parents.setdefault(int(stat[stat.rindex(b")") + 2 :].split()[1]), []).append(int(name))
    found: list[int] = []
    todo = [pid]
    while todo:
        of_one = parents.get(todo.pop(), [])
        found += of_one
        todo += of_one
    return found


def _kind(pid: int, proc: str) -> ChildKind:
    if _bytes(f"{proc}/{pid}/comm").strip() == LOADER_WORKER.encode():
        return "loader"
    return "trial" if TRIAL_WORKER.encode() in _bytes(f"{proc}/{pid}/cmdline") else "other"


def _bytes(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
