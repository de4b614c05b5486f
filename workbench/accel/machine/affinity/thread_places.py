"""Where the threads of processes are, where they may be, and how busy they were, from /proc; and all of them by CPU."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from accel.machine.affinity.cpu_map import CpuMap
from accel.machine.affinity.processes_here import Kind, ProcessHere, short_name
from accel.machine.affinity.thread_names import ThreadNames
from accel.machine.cpu_lists import cpu_list, parse_cpu_list
from accel.machine.usable_cores import UsableCores

BUSY = 0.2  # of one CPU, between two looks: less is a thread that woke up now and then


@dataclass(frozen=True)
class ThreadPlace:
    """One thread: what it is, the CPU it ran on last, the CPUs it may run on, and its CPU time so far.

    `group` is the process it belongs to in words: "this notebook", "loader worker 1", "rank 0". `busy` is its share of one CPU
    since the look before (1.0: it ran all the time), None where there was one look; `is_running` is true of this instant only.
    """

    pid: int
    thread: int
    group: str
    what: str
    cpu: int
    allowed: tuple[int, ...]
    cpu_s: float = 0.0
    is_running: bool = False
    busy: float | None = None
    kind: Kind = "other"

    @property
    def is_main(self) -> bool:
        """Whether it is its process's first thread, whose mask later children inherit."""
        return self.pid == self.thread

    @property
    def is_busy(self) -> bool:
        """Whether it computes: by its CPU time between two looks, or, after one look, by whether it ran then."""
        return self.is_running if self.busy is None else self.busy >= BUSY


def read_threads(
    processes: Iterable[ProcessHere | tuple[int, str]],
    proc: Path | str = "/proc",
    *,
    names: ThreadNames | None = None,
) -> tuple[ThreadPlace, ...]:
    """The threads of these processes, (pid, name of the process); a process that is gone has none.

    >>> read_threads([(os.getpid(), "this notebook")])[0].what
    'main thread'
    """
    names = names or ThreadNames(proc)
    names.begin_look()
    found = []
    for each in processes:
        process = ProcessHere(*each)
        try:
            threads = sorted(int(name) for name in os.listdir(f"{proc}/{process.pid}/task"))
        except OSError:  # it has ended
            continue
        found += [
            place for thread in threads if (place := _read(proc, process, thread, names)) is not None
        ]  # fmt: skip
    return tuple(found)


class ThreadLooks:
    """Looks at the same processes again and again: from the second on, each thread's share of a CPU is known.

    >>> looks = ThreadLooks()
    >>> looks.look(processes_here()); time.sleep(1); looks.look(processes_here())
    """

    def __init__(self, proc: Path | str = "/proc", clock: Callable[[], float] = time.monotonic) -> None:
        self._proc, self._clock, self._names = proc, clock, ThreadNames(proc)
        self._before: dict[tuple[int, int], float] = {}
        self._before_s: float | None = None

    def look(self, processes: Iterable[ProcessHere | tuple[int, str]]) -> tuple[ThreadPlace, ...]:
        """The threads now; one that was not there before has no share yet."""
        now_s = self._clock()
        places = read_threads(processes, self._proc, names=self._names)
        passed_s = now_s - self._before_s if self._before_s is not None else 0.0
        seen = self._before
        self._before = {(each.pid, each.thread): each.cpu_s for each in places}
        self._before_s = now_s
        if passed_s <= 0:
            return places
        return tuple(
            replace(each, busy=min(1.0, max(0.0, each.cpu_s - seen[each.pid, each.thread]) / passed_s))
            if (each.pid, each.thread) in seen
            else each
            for each in places
        )


def _read(proc: Path | str, process: ProcessHere, thread: int, names: ThreadNames) -> ThreadPlace | None:
    folder = f"{proc}/{process.pid}/task/{thread}"
    try:
        stat = _text(f"{folder}/stat")
        allowed = _mask(thread) if str(proc) == "/proc" else _mask_in(_text(f"{folder}/status"))
    except (OSError, ValueError):  # it has ended
        return None
    fields = stat[stat.rindex(")") + 2 :].split()  # the name in front may hold spaces and brackets
    own_name = stat[stat.index("(") + 1 : stat.rindex(")")]
    return ThreadPlace(
        process.pid, thread, process.name, names.of(process.pid, thread, own_name),
        cpu=int(fields[36]), allowed=allowed, cpu_s=_cpu_s(folder, fields), is_running=fields[0] == "R", kind=process.kind,
    )  # fmt: skip


def _cpu_s(folder: str, fields: list[str]) -> float:
    """CPU time so far: in nanoseconds where the kernel counts them, else in the ticks of a hundredth of a second."""
    try:
        return int(_text(f"{folder}/schedstat").split()[0]) / 1e9
    except (OSError, IndexError, ValueError):  # a kernel without it
        return (int(fields[11]) + int(fields[12])) / _ticks_a_second()


def _mask(thread: int) -> tuple[int, ...]:
    return tuple(sorted(os.sched_getaffinity(thread))) if sys.platform == "linux" else ()


def _mask_in(status: str) -> tuple[int, ...]:
    lists = (line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list"))
    return parse_cpu_list(next(lists, ""))


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _ticks_a_second() -> int:
    return os.sysconf("SC_CLK_TCK") if sys.platform != "win32" else 100


@dataclass(frozen=True)
class WhereThreadsAre:
    """The CPUs of this machine, and the threads of a process and of its workers on them."""

    cpu_map: CpuMap
    threads: tuple[ThreadPlace, ...]
    torch_threads: int | None = None
    environment: tuple[tuple[str, str], ...] = ()
    why_not: str = ""  # why there are no threads, where the system does not report them
    known_processes: tuple[ProcessHere, ...] = ()
    usable: UsableCores | None = None  # with the container's quota, where there is one

    @property
    def processes(self) -> tuple[ProcessHere, ...]:
        """The processes that threads are of, this notebook first."""
        known = {process.pid: process for process in self.known_processes}
        first = {each.pid: each for each in reversed(self.threads)}
        return tuple(
            known.get(pid) or ProcessHere(pid, each.group, each.kind, short_name(each.kind, each.group))
            for pid, each in reversed(first.items())
        )

    def on(self, cpu: int) -> list[ThreadPlace]:
        """The threads that ran on a CPU last, busy ones first."""
        here = (each for each in self.threads if each.cpu == cpu)
        return sorted(here, key=lambda each: (not each.is_busy, -(each.busy or 0)))

    @property
    def masks(self) -> list[tuple[str, str]]:
        """(process, the CPUs its main thread may use), for each process."""
        return [(each.group, cpu_list(each.allowed)) for each in self.threads if each.is_main]
