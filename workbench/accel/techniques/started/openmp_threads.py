"""What the OpenMP threads of this process do: on which CPUs they may run, and whether they spin while they wait."""

from __future__ import annotations

import os
import time
from pathlib import Path

ELEMENTS = 1 << 20  # of an operation that is spread over all threads
WATCHED_MS = 30
LONGEST_S = 1.0
TASKS = Path("/proc/self/task")


def run_on_all_threads() -> None:
    """One operation that every OpenMP thread has a part of."""
    import torch

    torch.ones(ELEMENTS, device="cpu").add_(1.0)


def spun_share() -> float | None:
    """How long the busiest waiting thread spins after an operation: its CPU time as a share of `WATCHED_MS`, at most 1.

    >>> spun_share()           # under OMP_WAIT_POLICY=active, with two threads
    1.0

    CPU time is counted, not elapsed time, so other programs on the same CPU hardly change the result. None if the system does not
    report the CPU time of threads.
    """
    run_on_all_threads()
    own, before = os.getpid(), _of_threads()
    if own not in before:
        return None
    began, spun_ns, is_awake, watched_ns = time.perf_counter(), 0, True, WATCHED_MS * 1e6
    while is_awake and spun_ns < watched_ns and time.perf_counter() - began < LONGEST_S:
        time.sleep(WATCHED_MS / 10 / 1e3)
        others = {task: seen for task, seen in _of_threads().items() if task in before and task != own}
        spun_ns = max((cpu_ns - before[task][0] for task, (cpu_ns, _) in others.items()), default=0)
        is_awake = any(state == "R" for _, state in others.values())
    return min(spun_ns / watched_ns, 1.0)


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


def _of_threads() -> dict[int, tuple[int, str]]:
    """Each thread's CPU time in nanoseconds, and its state: R while it runs or waits for a CPU."""
    found = {}
    for task in TASKS.iterdir() if TASKS.exists() else ():
        try:
            cpu_ns = int((task / "schedstat").read_text().split()[0])
            state = (task / "stat").read_text().rpartition(")")[2].split()[0]
        except (OSError, ValueError, IndexError):  # it has ended, or the system does not count
            continue
        found[int(task.name)] = (cpu_ns, state)
    return found
