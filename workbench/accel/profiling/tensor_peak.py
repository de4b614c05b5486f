"""The most bytes that tensors in main memory held during a step: equal for equal programs, whatever pages stay resident."""

from __future__ import annotations

import gc
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from accel.profiling.memory_use import MEMORY
from accel.profiling.quiet_stderr import profiler_lines_aside

if TYPE_CHECKING:
    import torch

_FROM_HERE_ON = "accel: what tensors hold is counted from here on"


class TensorPeak:
    """Counts while steps run; the caller says when a step is over.

    >>> peak = TensorPeak()
    >>> peak.begin()
    >>> for _ in range(3):
    ...     train_step()
    ...     peak.step()
    >>> peak.end()
    >>> peak.bytes
    28897448

    The first step is not in the figure. torch reports the free of a block only if it saw the allocation, and gradients are
    allocated in one step and freed in the next. When it is over, the storages that live are added up; the profiler's events
    of the steps after it say how much more there was. What libraries allocate for themselves (oneDNN's scratch memory) and
    what another thread allocates is not counted.
    """

    def __init__(self) -> None:
        self.bytes = 0  # 0 where nothing was counted: another profiler runs
        self._profiler: Any = None
        self._held: int | None = None  # at the end of the first step; None until then

    def begin(self) -> None:
        """Before the first step."""
        import torch
        from torch._C._autograd import _profiler_enabled
        from torch.autograd.profiler import profile

        if _profiler_enabled():
            return
        self._held = None
        gc.collect()  # what only a cycle keeps goes at one time or another
        self._profiler = profile(use_kineto=True, use_cpu=True, profile_memory=True)
        block = torch.empty(1)  # torch logs the first free of a block from before: let it be this one
        with profiler_lines_aside():
            self._profiler.__enter__()
            del block

    def step(self) -> None:
        """A step is over."""
        if self._profiler is None or self._held is not None:
            return
        from torch.autograd.profiler import record_function

        self._held = held_by_tensors()
        with record_function(_FROM_HERE_ON):
            pass

    def end(self) -> None:
        """After the last step: read what was counted."""
        if self._profiler is None:
            return
        profiler, self._profiler = self._profiler, None
        with profiler_lines_aside():
            profiler.__exit__(None, None, None)
        if self._held is not None:
            self.bytes = max(self.bytes, self._held + most_added(profiler.kineto_results.events()))


def held_by_tensors() -> int:
    """Bytes of all storages in main memory that tensors of this process hold now, each once.

    >>> before = held_by_tensors()
    >>> tensor = torch.ones(1 << 20)
    >>> held_by_tensors() - before
    4194304
    """
    import torch

    with torch._C.DisableTorchFunctionSubclass():
        tensors = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
        gradients = [each.grad for each in tensors if each.is_leaf and each.grad is not None]
        return sum(dict(map(_storage, (*tensors, *gradients))).values())


def _storage(tensor: torch.Tensor) -> tuple[int, int]:
    """Address and bytes; 0 bytes where there are none in main memory."""
    if tensor.device.type != "cpu":
        return 0, 0
    try:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
    except RuntimeError:  # a sparse or fake tensor, a wrapper of others: none of its own
        return 0, 0
    return address, storage.nbytes() if address else 0


def most_added(events: Iterable[Any]) -> int:
    """The most bytes by which main memory held more than at the mark, from kineto's events."""
    found = list(events)
    mark_ns = next((event.start_ns() for event in found if event.name() == _FROM_HERE_ON), None)
    if mark_ns is None:
        return 0
    changes = [
        (event.start_ns(), event.nbytes())
        for event in found
        if event.name() == MEMORY and event.start_ns() >= mark_ns and int(event.device_type()) == 0
    ]
    held = most = 0
    for _, change in sorted(changes, key=lambda each: each[0]):
        held += change
        most = max(most, held)
    return most
