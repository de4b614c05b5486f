"""A folder that reads like /proc: CPUs, memory, and processes with their children, as of any moment."""

from __future__ import annotations

import os
from pathlib import Path


class FakeProc:
    """Counters that a test sets; files keep their inode, as the kernel's do."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "self").mkdir(parents=True)
        (root / "self/statm").write_text("1000 256 64 1 0 500 0\n")
        (root / "loadavg").write_text("1.25 0.80 0.60 2/300 4711\n")
        self.memory(total_kib=8 << 20, available_kib=4 << 20)
        self.children_of(os.getpid())

    def cpus(self, *ticks: tuple[int, int]) -> None:
        """(busy, idle) of each CPU, in ticks."""
        busy, idle = sum(each[0] for each in ticks), sum(each[1] for each in ticks)
        self.stat(*(f"cpu{at} {b} 0 0 {i} 0 0 0 0 0 0" for at, (b, i) in enumerate(ticks)),
                  of_all=f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0")  # fmt: skip

    def stat(self, *cpus: str, of_all: str) -> None:
        self._write("stat", "\n".join([of_all, *cpus, "intr 1 0 0", "ctxt 7", ""]))

    def memory(self, *, total_kib: int, available_kib: int) -> None:
        self._write("meminfo", f"MemTotal: {total_kib} kB\nMemFree: 1 kB\nMemAvailable: {available_kib} kB\n"
                    "SwapTotal: 2048 kB\nSwapFree: 1024 kB\nDirty: 0 kB\n")  # fmt: skip

    def children_of(self, pid: int, *children: int) -> None:
        self._write(f"{pid}/task/{pid}/children", " ".join(map(str, children)))

    def process(
        self, pid: int, *, ticks: int, name: str = "python", pages: int = 100, command: str = "", began: int = 0,
    ) -> None:  # fmt: skip
        rest = [0] * 40
        rest[10], rest[11], rest[18], rest[20] = (
            ticks,
            0,
            began,
            pages,
        )  # counted after the state: utime, stime, starttime, rss
        self._write(f"{pid}/stat", f"{pid} (a) b ({name}) S {' '.join(map(str, rest))}\n")
        self._write(f"{pid}/comm", f"{name}\n")
        self._write(f"{pid}/cmdline", command.replace(" ", "\0"))
        self.children_of(pid)

    def _write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s
