"""What a system has counted until a moment: processor time of every CPU and of processes, and memory as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

ChildKind = Literal["loader", "trial", "other"]
CHILD_KINDS: tuple[ChildKind, ...] = ("loader", "trial", "other")


@dataclass(frozen=True)
class ChildCounters:
    """A child process: what it is, its CPU time since it began, its resident memory (pages shared with its parent included).

    One that `began_now` was not there when the counters were read before: all of its CPU time is of the time since.
    """

    pid: int
    kind: ChildKind
    cpu_s: float
    rss_bytes: int
    began_now: bool = False


@dataclass(frozen=True)
class HostCounters:
    """Counters of the system at `time_s`; `busy` and `total` are one a CPU, in any unit, in the order of `cpus`.

    `stolen`, `waiting` and `all_total` are of all CPUs together: time in which the hypervisor ran others, and in which a CPU was
    idle while a process waited for a disk. `load` is the one-minute load average, None where the system keeps none.
    `allowed` are the CPUs that this process may use (empty: unknown). Where a container has a quota of CPU time, `quota_cores`
    is it, `quota_used_s` the CPU time that was used of it, and `stopped` of its `periods` are those in which it was used up.
    """

    time_s: float
    cpus: tuple[int, ...]
    busy: tuple[float, ...]
    total: tuple[float, ...]
    stolen: float = 0.0
    waiting: float = 0.0
    all_total: float = 0.0
    process_cpu_s: float = 0.0
    process_rss_bytes: int = 0
    children: tuple[ChildCounters, ...] = ()
    memory_bytes: int = 0
    available_bytes: int = 0
    swap_used_bytes: int = 0
    load: float | None = None
    allowed: tuple[int, ...] = ()
    quota_cores: float | None = None
    quota_used_s: float | None = None
    periods: float = 0.0
    stopped: float = 0.0


class HostReader(Protocol):
    """Something that reads the counters of a system, again and again, until it is closed."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What this system does not report, and what the counters leave out, each a sentence."""

    def read(self) -> HostCounters:
        """The counters now."""

    def close(self) -> None:
        """Give back what was held open."""
