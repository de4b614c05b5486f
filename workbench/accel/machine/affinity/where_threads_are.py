"""The CPUs of a machine with the threads that ran on each: what an Affinity tells of, and what its notes are drawn from."""

from __future__ import annotations

from dataclasses import dataclass

from accel.machine.affinity.cpu_map import CpuMap
from accel.machine.affinity.processes_here import ProcessHere, short_name
from accel.machine.affinity.thread_places import ThreadPlace
from accel.machine.cpu_lists import cpu_list
from accel.machine.usable_cores import UsableCores


@dataclass(frozen=True)
class WhereThreadsAre:
    """The CPUs of this machine, and the threads of a process and of its workers on them."""

    cpu_map: CpuMap
    threads: tuple[ThreadPlace, ...]
    torch_threads: int | None = None
    environment: tuple[tuple[str, str], ...] = ()
    told: str = ""  # why there is nothing, where the system does not tell
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
