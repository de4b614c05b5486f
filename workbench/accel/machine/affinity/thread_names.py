"""What a thread is for: by its own name, by Python's, or by the library that it waits in.

Measured with torch 2.14 on Linux: torch names the threads of its inter-op pool (PTThreadPool) and of autograd's devices
(pt_autograd_0); OpenMP's and OpenBLAS's have no name. A thread of GNU OpenMP that has nothing to do waits inside libgomp, which
/proc/<pid>/task/<thread>/syscall shows: the address it will return to. A thread that never waits while it is looked at, and
those of libraries that wait inside the C library, remain "compute thread".
"""

from __future__ import annotations

import os
import re
import threading
from bisect import bisect_right
from pathlib import Path

UNKNOWN, UNKNOWN_ELSEWHERE = (
    "compute thread",
    "unnamed thread",
)  # here all of Python's are known, elsewhere none
OWN_NAMES = (
    ("PTThreadPool", "inter-op thread"), ("pt_interop", "inter-op thread"), ("pt_autograd", "autograd thread"),
    ("pt_data_pin", "pin-memory thread"), ("pt_tcpstore", "store thread"), ("pt_gloo", "gloo thread"), ("pt_nccl", "NCCL thread"),
    ("gloo", "gloo thread"), ("cuda-", "CUDA driver's thread"), ("cuda0", "CUDA driver's thread"), ("ZMQ", "messaging thread"),
    ("iou-", "kernel's I/O thread"), ("jemalloc_bg", "allocator's thread"),
)  # fmt: skip
LIBRARIES = (
    (re.compile(r"lib(gomp|iomp5|omp)[-.\w]*\.so"), "OpenMP thread"),
    (re.compile(r"lib(scipy_)?openblas[-.\w]*\.so"), "OpenBLAS thread"),
    (re.compile(r"libzmq[-.\w]*\.so"), "messaging thread"),
)
LOOKS = 5  # at a thread that waits elsewhere: later looks will not find its library either


def as_text(name: str) -> str:
    """A name that anybody may have given, without what a terminal obeys.

    >>> as_text("loader\\x1b[2J")
    'loader·[2J'
    """
    return "".join(letter if letter.isprintable() else "·" for letter in name)


class ThreadNames:
    """Remembers what each thread is, so that a later look reads only what is new.

    >>> ThreadNames().of(os.getpid(), os.getpid(), "python")
    'main thread'
    """

    def __init__(self, proc: Path | str = "/proc") -> None:
        self._proc = Path(proc)
        self._known: dict[tuple[int, int], str] = {}
        self._looks: dict[tuple[int, int], int] = {}
        self._libraries: dict[int, list[tuple[int, int, str]]] = {}
        self._asked: set[tuple[int, int]] = set()

    def begin_look(self) -> None:
        """Libraries are read again, at most once a look and process, and only if a thread is not known yet.

        What was not asked for since the last look is gone, and its number may be another thread's by now.
        """
        self._libraries.clear()
        for remembered in (self._known, self._looks):
            for key in [key for key in remembered if key not in self._asked]:
                del remembered[key]
        self._asked.clear()

    def of(self, pid: int, thread: int, name: str) -> str:
        """What a thread is, from its name in /proc and from where it waits."""
        return as_text(self._of(pid, thread, name))

    def _of(self, pid: int, thread: int, name: str) -> str:
        if thread == pid:
            return "main thread"
        if pid == os.getpid() and (python := _python_names().get(thread)):
            return python
        for beginning, what in OWN_NAMES:
            if name.startswith(beginning):
                return what
        key = (pid, thread)
        self._asked.add(key)
        if key in self._known:
            return self._known[key]
        if self._looks.get(key, 0) < LOOKS and (what := self._where_it_waits(pid, thread)):
            self._known[key] = what
            return what
        return UNKNOWN if pid == os.getpid() else UNKNOWN_ELSEWHERE

    def _where_it_waits(self, pid: int, thread: int) -> str:
        """The library with the address at which the thread waits in the kernel; "" while it runs."""
        try:
            fields = (self._proc / str(pid) / "task" / str(thread) / "syscall").read_text().split()
        except OSError:  # it ended, or the system does not let us look
            fields = []
        if fields and fields[0] == "running":
            return ""
        self._looks[pid, thread] = self._looks.get((pid, thread), 0) + 1
        if len(fields) < 3:
            return ""
        if pid not in self._libraries:
            self._libraries[pid] = _libraries(self._proc / str(pid) / "maps")
        ranges, address = self._libraries[pid], int(fields[-1], 16)
        at = bisect_right(ranges, (address, 1 << 64, "")) - 1
        return ranges[at][2] if at >= 0 and ranges[at][0] <= address < ranges[at][1] else ""


def _libraries(maps: Path) -> list[tuple[int, int, str]]:
    """Where the libraries that start threads lie in a process's memory: (from, to, what their threads are)."""
    found = []
    try:
        lines = maps.read_text().splitlines()
    except OSError:  # it ended, or belongs to somebody else
        return []
    for line in lines:
        place, _, path = line.partition(" ")
        what = next((what for name, what in LIBRARIES if name.search(path)), "")
        if what:
            begin, end = (int(each, 16) for each in place.split("-"))
            found.append((begin, end, what))
    return sorted(found)


def _python_names() -> dict[int | None, str]:
    return {each.native_id: f"Python's {each.name}" for each in threading.enumerate()}
