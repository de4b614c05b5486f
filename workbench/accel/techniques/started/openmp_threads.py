"""What the OpenMP threads of this process do: on which CPUs they may run, and whether they spin while they wait."""

from __future__ import annotations

import os
import time
from pathlib import Path

ELEMENTS = 1 << 20  # of an operation that is spread over all threads
WAITED_S = 0.03
TASKS = Path("/proc/self/task")


def run_on_all_threads() -> None:
    """One operation that every OpenMP thread has a part of."""
    import torch

    torch.ones(ELEMENTS, device="cpu").add_(1.0)


def spun_share() -> float | None:
    """What part of a wait the other threads spend computing nothing: 1 where one of them spins all the time.

    >>> spun_share()           # under OMP_WAIT_POLICY=active, with two threads
    0.99

    A thread that would spin but waits for its CPU, because other programs run, counts as one that spins. None where the system
    does not count.
    """
    run_on_all_threads()
    began, at = time.perf_counter_ns(), _awake_ns()
    while time.perf_counter_ns() - began < WAITED_S * 1e9:
        time.sleep(WAITED_S / 10)
    took = time.perf_counter_ns() - began
    after, own = _awake_ns(), os.getpid()
    if own not in after:
        return None
    others = [after[task] - at[task] for task in at.keys() & after.keys() if task != own]
    return max(others, default=0) / took


def masks() -> dict[int, tuple[int, ...]]:
    """The CPUs that each thread may run on, by its number; the process's own number is its main thread's."""
    run_on_all_threads()
    found = {}
    for task in TASKS.iterdir():
        try:
            found[int(task.name)] = tuple(sorted(os.sched_getaffinity(int(task.name))))
        except OSError:  # it has ended
            continue
    return found


def bound_threads() -> list[tuple[int, ...]]:
    """The places that threads are bound to: those of threads that may run on as few CPUs as the main one; one: none is bound."""
    of_threads = masks()
    width = len(of_threads[os.getpid()])
    return sorted({each for each in of_threads.values() if len(each) == width})


def _awake_ns() -> dict[int, int]:
    """How long each thread had a CPU or waited for one, in nanoseconds, as the scheduler counts it."""
    found = {}
    for task in TASKS.iterdir():
        try:
            on_a_cpu, waited, *_ = (task / "schedstat").read_text().split()
            found[int(task.name)] = int(on_a_cpu) + int(waited)
        except (OSError, ValueError, IndexError):  # it has ended, or the system does not count
            continue
    return found
