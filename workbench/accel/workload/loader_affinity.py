"""Loader workers get a mask of their own, instead of the one CPU that OpenMP left to the main thread."""

from __future__ import annotations

import copy
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from accel.errors import AccelError
from accel.hooks.attribute_patches import AttributePatches
from accel.machine.affinity.pinning import check_mask
from accel.processes.starting_mask import starting_mask


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
    given = _Mask(starting_mask() if cpus is None else tuple(sorted({int(cpu) for cpu in cpus})))
    _check(given.cpus)
    _enter(given)
    try:
        yield given.cpus
    finally:
        _leave(given)


@dataclass(eq=False)
class _Mask:
    """One `with` block that is entered; two of the same CPUs are two."""

    cpus: tuple[int, ...]


_entered: list[_Mask] = []  # in any threads; the one entered last holds
_lock = threading.Lock()
_patches = AttributePatches()


def _enter(mask: _Mask) -> None:
    """The first one replaces the method of DataLoader that starts workers."""
    from torch.utils.data import DataLoader

    with _lock:
        if not _entered:
            original: Callable[[Any], Any] = vars(DataLoader)["_get_iterator"]
            _patches.add(DataLoader, "_get_iterator", lambda loader: _started(loader, original))
        _entered.append(mask)


def _leave(mask: _Mask) -> None:
    """The last one puts the method back, in whichever order they are left."""
    with _lock:
        _entered.remove(mask)
        if not _entered:
            _patches.take_back()


@dataclass
class WorkerOn:
    """Takes the place of a loader's `worker_init_fn` while its workers start: sets the mask, then calls the user's."""

    cpus: tuple[int, ...]
    user_function: Callable[[int], None] | None

    def __call__(self, worker: int) -> None:
        if sys.platform == "linux":
            for thread in os.listdir("/proc/self/task"):  # threads that a library has started here already
                with suppress(ProcessLookupError):  # it ended meanwhile
                    os.sched_setaffinity(int(thread), self.cpus)
        if self.user_function is not None:
            self.user_function(worker)


def _started(loader: Any, original: Callable[[Any], Any]) -> Any:
    """Start the workers of a copy with our function in the place of the user's: other threads may iterate the loader itself."""
    with _lock:
        cpus = _entered[-1].cpus if _entered else ()
    if not cpus or not loader.num_workers:
        return original(loader)
    with_mask = copy.copy(loader)
    vars(with_mask)["worker_init_fn"] = WorkerOn(cpus, loader.worker_init_fn)
    return original(with_mask)


def _check(cpus: tuple[int, ...]) -> None:
    """Set the mask once, in a thread of its own that ends with it: what the kernel refuses here, it would refuse a worker."""
    if not cpus:
        raise AccelError(
            "loader_affinity(cpus=[])",
            because="a worker needs a CPU",
            do="Give at least one, or none for all.",
        )
    check_mask(cpus, asked=f"loader_affinity(cpus={list(cpus)})")
