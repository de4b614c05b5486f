"""Which CPUs the ranks of a run or of a trial get: the same for both, so that what a trial measures is what a run does."""

from __future__ import annotations

import os
from dataclasses import replace

from accel.machine.affinity import Allocation, allocate
from accel.machine.cgroup import cpu_quota
from accel.machine.usable_cores import UsableCores
from accel.processes.starting_mask import binding_variables, starting_mask


def cpus_of_ranks(ranks: int, threads: int | None) -> Allocation | None:
    """CPUs for each rank; None where the system has no masks to set, or there are more ranks than CPUs: they share.

    >>> cpus_of_ranks(2, None).ranks[1].cpus
    (4, 5, 6, 7)

    `threads` None: as many as can run at the same time, shared out evenly; second threads of cores are given out only then.
    Raises AccelError where there are not enough CPUs for `threads`.
    """
    if not hasattr(os, "sched_setaffinity"):
        return None
    mask = starting_mask()
    usable = UsableCores(len(mask), tuple(mask), cpu_quota()).count
    if threads is None and ranks > len(mask):
        return None
    unbound = _left_out()
    if threads is not None:
        given = allocate(ranks, threads, smt=False)
        return replace(given, notes=(*given.notes, *unbound))
    return replace(
        allocate(ranks, max(1, usable // ranks), smt=True), notes=unbound
    )  # no other number was asked for


def _left_out() -> tuple[str, ...]:
    """The notebook's variables that ranks do without."""
    variables = ", ".join(f"{name}={value}" for name, value in binding_variables())
    return (f"{variables} had no part in the ranks: each has CPUs of its own.",) if variables else ()
