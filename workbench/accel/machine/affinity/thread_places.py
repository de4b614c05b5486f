"""Where the threads of a process and of its children are, and where they may be, from /proc."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from accel.machine.cpu import parse_cpu_list

if TYPE_CHECKING:
    import psutil

TRIAL_WORKER = "accel.workers.worker_main"
LOADER_WORKER = "pt_data_worker"  # as torch names its DataLoader's processes


@dataclass(frozen=True)
class ThreadPlace:
    """One thread: what it is, the CPU it ran on last, the CPUs it may run on, and its CPU time so far.

    `group` is the process it belongs to in words: "this notebook", "loader worker 1", "rank 0".
    """

    pid: int
    thread: int
    group: str
    what: str
    cpu: int
    allowed: tuple[int, ...]
    cpu_s: float = 0.0
    is_running: bool = False

    @property
    def is_main(self) -> bool:
        """Whether it is its process's first thread, whose mask later children inherit."""
        return self.pid == self.thread


def read_threads(groups: Iterable[tuple[int, str]], proc: Path | str = "/proc") -> tuple[ThreadPlace, ...]:
    """The threads of these processes, (pid, name of the group); a process that is gone has none.

    >>> read_threads([(os.getpid(), "this notebook")])[0].what
    'main thread'
    """
    python = {each.native_id: f"Python's {each.name}" for each in threading.enumerate()}
    found = []
    for pid, group in groups:
        folder = Path(proc) / str(pid) / "task"
        threads = sorted((path for path in folder.glob("[0-9]*")), key=lambda path: int(path.name))
        found += [place for path in threads if (place := _read(path, pid, group, python)) is not None]
    return tuple(found)


def groups_here(ranks: dict[int, int] | None = None) -> list[tuple[int, str]]:
    """This process, its loader workers, and workers that are ranks (rank → pid)."""
    import psutil

    own = psutil.Process()
    groups = [(own.pid, "this notebook")]
    ranks_by_pid = {pid: rank for rank, pid in (ranks or {}).items()}
    loaders = trials = 0
    for child in own.children(recursive=True):
        if child.pid in ranks_by_pid:
            groups.append((child.pid, f"rank {ranks_by_pid[child.pid]}"))
        elif _name(Path("/proc") / str(child.pid)) == LOADER_WORKER:
            loaders += 1
            groups.append((child.pid, f"loader worker {loaders}"))
        elif TRIAL_WORKER in _command(child):
            trials += 1
            groups.append((child.pid, f"trial worker {trials}"))
    return groups


def _command(process: psutil.Process) -> list[str]:
    import psutil

    try:
        return process.cmdline()
    except psutil.Error:  # it ended meanwhile
        return []


def _read(folder: Path, pid: int, group: str, python: dict[int | None, str]) -> ThreadPlace | None:
    try:
        stat, status = (folder / "stat").read_text(), (folder / "status").read_text()
    except OSError:  # it ended meanwhile
        return None
    fields = stat[stat.rindex(")") + 2 :].split()  # the name in front may hold spaces and brackets
    allowed = next(
        (line.split()[1] for line in status.splitlines() if line.startswith("Cpus_allowed_list")), ""
    )
    thread = int(folder.name)
    return ThreadPlace(
        pid, thread, group, _what(thread, pid, stat[stat.index("(") + 1 : stat.rindex(")")], python),
        cpu=int(fields[36]), allowed=parse_cpu_list(allowed),
        cpu_s=(int(fields[11]) + int(fields[12])) / _ticks_a_second(), is_running=fields[0] == "R",
    )  # fmt: skip


def _what(thread: int, pid: int, name: str, python: dict[int | None, str]) -> str:
    """A thread's name, where it or Python gives it one; OpenMP's have none of their own."""
    if thread == pid:
        return "main thread"
    if thread in python:
        return python[thread]
    if name.startswith("pt_") and name != LOADER_WORKER:
        return name
    return "compute thread" if pid == os.getpid() else "thread"


def _name(folder: Path) -> str:
    try:
        return (folder / "comm").read_text().strip()
    except OSError:
        return ""


def _ticks_a_second() -> int:
    return os.sysconf("SC_CLK_TCK") if sys.platform != "win32" else 100
