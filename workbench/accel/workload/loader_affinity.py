"""Loader workers get a mask of their own, instead of the one CPU that OpenMP left to the main thread."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from accel.errors import AccelError
from accel.machine.affinity.pinning import check_mask
from accel.machine.affinity.starting_mask import starting_mask
from accel.workload.attribute_patches import AttributePatches


@contextmanager
def loader_affinity(cpus: Iterable[int] | None = None) -> Iterator[tuple[int, ...]]:
    """While this is entered, workers that a DataLoader starts may run on `cpus`; gives these.

    >>> with accel.loader_affinity():
    ...     for images, labels in loader:
    ...         ...

    Default: the CPUs that this process had when it began. OMP_PROC_BIND, GOMP_CPU_AFFINITY and KMP_AFFINITY narrow the main
    thread's mask to one CPU, and workers inherit that: all of them then share one CPU with training. The mask is set in
    each worker before a `worker_init_fn` of yours, which is called as ever and has the last word. Workers that run already
    (persistent_workers=True) keep their mask. Nothing of the loaders or of torch is changed afterwards.
    Raises AccelError for CPUs that are not there or not allowed, and where there are no masks (macOS, Windows).
    """
    given = starting_mask() if cpus is None else tuple(sorted({int(cpu) for cpu in cpus}))
    _check(given)
    from torch.utils.data import DataLoader

    original: Callable[[Any], Any] = vars(DataLoader)["_get_iterator"]
    patches = AttributePatches()
    patches.add(DataLoader, "_get_iterator", lambda loader: _started_on(given, loader, original))
    try:
        yield given
    finally:
        patches.take_back()


@dataclass
class WorkerOn:
    """Takes the place of a loader's `worker_init_fn` while its workers start: sets the mask, then calls the user's."""

    cpus: tuple[int, ...]
    user_function: Callable[[int], None] | None

    def __call__(self, worker: int) -> None:
        if sys.platform == "linux":
            for thread in os.listdir("/proc/self/task"):  # threads that a library has started here already
                os.sched_setaffinity(int(thread), self.cpus)
        if self.user_function is not None:
            self.user_function(worker)


def _started_on(cpus: tuple[int, ...], loader: Any, original: Callable[[Any], Any]) -> Any:
    """Start the workers with our function in the place of the user's, which is back before anybody can look."""
    if not loader.num_workers:
        return original(loader)
    state = vars(loader)
    users = state["worker_init_fn"]
    state["worker_init_fn"] = WorkerOn(cpus, users)
    try:
        return original(loader)
    finally:
        state["worker_init_fn"] = users


def _check(cpus: tuple[int, ...]) -> None:
    """Set the mask once, in a thread of its own that ends with it: what the kernel refuses here, it would refuse a worker."""
    if not cpus:
        raise AccelError(
            "loader_affinity(cpus=[])",
            because="a worker needs a CPU",
            do="Give at least one, or none for all.",
        )
    check_mask(cpus, asked=f"loader_affinity(cpus={list(cpus)})")
