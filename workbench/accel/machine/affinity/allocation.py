"""Which CPUs each rank gets, so that no two share a core, and the variables that tell OpenMP."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from accel.errors import AccelError
from accel.machine.affinity.cpu_map import CpuMap, read_cpu_map
from accel.machine.affinity.pinning import pin
from accel.machine.cgroup import cpu_quota
from accel.machine.cpu_lists import cpu_list
from accel.processes.starting_mask import starting_mask
from accel.units import counted


@dataclass(frozen=True)
class RankCpus:
    """What one rank gets: its CPUs, one a thread."""

    rank: int
    cpus: tuple[int, ...]

    @property
    def as_env(self) -> dict[str, str]:
        """The variables for GNU OpenMP, before Python starts: so many threads, each on one of the CPUs.

        >>> RankCpus(1, (2, 3)).as_env["OMP_PLACES"]
        '{2},{3}'

        They narrow the main thread to one CPU, and loader workers inherit that: call `pin` in the rank where you can, or put
        the loop in `with accel.loader_affinity():`.
        """
        places = ",".join(f"{{{cpu}}}" for cpu in self.cpus)
        return {"OMP_NUM_THREADS": str(len(self.cpus)), "OMP_PLACES": places, "OMP_PROC_BIND": "close"}

    def pin(self) -> tuple[int, ...]:
        """Let this process run on these CPUs only, and tell OpenMP to use as many threads; gives the mask, read back.

        >>> allocate(ranks=2, threads=4).ranks[rank].pin()      # in the rank, before it imports torch
        (4, 5, 6, 7)

        Sets the mask of every thread that runs already, and OMP_NUM_THREADS, which torch reads when it is imported. No other
        variable is needed: nothing is narrowed to one CPU, and loader workers inherit the rank's CPUs.
        Raises AccelError where the system does not let us, and on macOS and Windows, which have no masks.
        """
        mask = pin(self.cpus, asked=f"Pinning rank {self.rank} to CPUs {cpu_list(self.cpus)}")
        os.environ["OMP_NUM_THREADS"] = str(len(self.cpus))
        return mask

    @property
    def as_gomp_env(self) -> dict[str, str]:
        """The same for GNU OpenMP alone, in its own variable."""
        listed = " ".join(map(str, self.cpus))
        return {"OMP_NUM_THREADS": str(len(self.cpus)), "GOMP_CPU_AFFINITY": listed}

    @property
    def as_intel_env(self) -> dict[str, str]:
        """The same for Intel OpenMP, where that is preloaded."""
        listed = ",".join(map(str, self.cpus))
        affinity = f"granularity=fine,proclist=[{listed}],explicit"
        return {"OMP_NUM_THREADS": str(len(self.cpus)), "KMP_AFFINITY": affinity, "KMP_BLOCKTIME": "1"}


@dataclass(frozen=True)
class Allocation:
    """The CPUs of every rank, and in words what is not as one would wish.

    >>> print(allocate(ranks=2, threads=8))
    """

    ranks: tuple[RankCpus, ...]
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [f"rank {each.rank}: CPUs {', '.join(map(str, each.cpus))}" for each in self.ranks]
        return "\n".join([*lines, *self.notes])

    def to_dict(self) -> dict[str, Any]:
        """As plain values, with the variables of each rank."""
        return {
            "ranks": [{"rank": each.rank, "cpus": list(each.cpus), "env": each.as_env} for each in self.ranks],
            "notes": list(self.notes),
        }  # fmt: skip


def allocate(
    ranks: int,
    threads: int,
    *,
    smt: bool = False,
    allowed: Sequence[int] | None = None,
    cpu_map: CpuMap | None = None,
    quota_cores: float | None = None,
) -> Allocation:
    """Give each of `ranks` so many CPUs of its own: physical cores first, a rank within one NUMA node where it fits.

    >>> allocate(2, 8).ranks[1].cpus
    (8, 9, 10, 11, 12, 13, 14, 15)

    `allowed` are the CPUs to give out (default: those that this process began with, also where OpenMP has bound its main thread
    since); `smt` also gives out second threads of cores, once all first ones are taken. `quota_cores` is the container's quota of
    CPU time (default: of this one, unless a `cpu_map` is given). Raises AccelError where there are not so many CPUs.
    """
    quota_cores = cpu_quota() if cpu_map is None and quota_cores is None else quota_cores
    cpu_map = cpu_map or read_cpu_map()
    allowed = _own_mask(cpu_map) if allowed is None else allowed
    if ranks < 1 or threads < 1:
        raise AccelError(_asked(ranks, threads), because="both are at least 1", do="Give numbers from 1 on.")
    in_order = cpu_map.in_order(allowed)
    firsts = {siblings: min(set(siblings) & set(allowed)) for siblings in cpu_map.cores_of(allowed)}
    usable = [cpu.number for cpu in in_order if smt or cpu.number == firsts[cpu.siblings]]
    if ranks * threads > len(usable):
        is_without_smt = len(usable) < len(in_order)
        most = len(usable) // ranks
        available = (
            "the system reports none of this machine"
            if not usable
            else f"there {'is' if len(usable) == 1 else 'are'} {len(usable)}"
        )
        fewer = f"{counted(most, 'thread')} a rank" if most else counted(len(usable), "rank")
        raise AccelError(
            _asked(ranks, threads),
            because=f"they need {counted(ranks * threads, 'core' if is_without_smt else 'CPU')} and {available}",
            do=f"Use at most {fewer}{', or smt=True.' if is_without_smt else '.'}"
            if usable
            else "Leave threads to the system.",
        )
    given = _by_node(cpu_map, usable, ranks, threads)
    notes = [*_notes(cpu_map, given), *_of_quota(ranks, threads, quota_cores)]
    return Allocation(tuple(RankCpus(rank, cpus) for rank, cpus in enumerate(given)), tuple(notes))


def _asked(ranks: int, threads: int) -> str:
    return f"{counted(ranks, 'rank')} × {counted(threads, 'thread')}"


def _of_quota(ranks: int, threads: int, quota_cores: float | None) -> list[str]:
    """What a quota of CPU time means for them: CPUs that are there, and cannot all be used all the time."""
    if quota_cores is None or ranks * threads <= math.ceil(quota_cores):
        return []
    return [
        f"The container's quota lets {counted(math.ceil(quota_cores), 'thread')} compute at a time "
        f"({quota_cores:g} s of CPU time a second), and these are {ranks * threads}: "
        "they would all be stopped again and again. Use fewer."
    ]


def _by_node(cpu_map: CpuMap, usable: list[int], ranks: int, threads: int) -> list[tuple[int, ...]]:
    """Rank after rank from the node with the most CPUs left; where none has enough, from all that is left."""
    left = list(usable)
    given = []
    for _ in range(ranks):
        nodes: dict[int, list[int]] = {}
        for number in left:
            nodes.setdefault(cpu_map.by_number[number].numa_node, []).append(number)
        fitting = [cpus for cpus in nodes.values() if len(cpus) >= threads]
        own = tuple((max(fitting, key=len) if fitting else left)[:threads])
        given.append(own)
        left = [number for number in left if number not in own]
    return sorted(given)


def _notes(cpu_map: CpuMap, given: list[tuple[int, ...]]) -> list[str]:
    notes = []
    crossing = [rank for rank, cpus in enumerate(given) if len(cpu_map.nodes_of(cpus)) > 1]
    if crossing:
        which = ", ".join(map(str, crossing))
        notes.append(
            f"Rank {which} spans NUMA nodes: half of its memory is farther away. Use fewer threads a rank."
        )
    taken = [number for cpus in given for number in cpus]
    if len(cpu_map.cores_of(taken)) < len(taken):
        notes.append("Some threads share a core: two threads of a core rarely compute more than one.")
    if len({cpu_map.is_fast(cpu_map.by_number[number]) for number in taken}) > 1:
        notes.append("Fast and economical cores are mixed: every parallel region waits for the slowest.")
    return notes


def _own_mask(cpu_map: CpuMap) -> list[int]:
    """The CPUs that this process began with: OpenMP may have bound the main thread to one of them since."""
    try:
        return list(starting_mask())
    except AccelError:  # macOS and Windows have no masks
        return list(cpu_map.by_number)
