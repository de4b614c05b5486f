"""CPU time that this process and all below it took between two looks, also where some of them ended in between."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from accel.machine.telemetry.child_processes import BEGAN, STIME, UTIME, descendants

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
        """Seconds from this look to a later one; None where one ended and nobody who is still there has waited for it."""
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
