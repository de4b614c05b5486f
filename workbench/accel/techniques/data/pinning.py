"""Pinned memory for batches that goes on without it where memory cannot be pinned."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from accel.errors import Reason
from accel.hooks.attribute_patches import AttributePatches
from accel.techniques.data.each_batch import after_each_batch
from accel.techniques.data.fit_for_workers import lies_on_gpu
from accel.techniques.data.loader_iterators import (
    IteratorMaker,
    find_maker,
    keeps_own_workers,
)
from accel.workload.callers_line import at_callers_line

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from accel.machine import Machine
    from accel.workload import Workload


class Pinning:
    """What happened in this process since pinning was switched on."""

    def __init__(self) -> None:
        self.refusal = ""
        self.copies = 0

    def count_copy(self) -> None:
        self.copies += 1


_in_force: list[Pinning] = []


def current_pinning() -> Pinning | None:
    """That of the plan in force, None without one."""
    return _in_force[-1] if _in_force else None


@contextmanager
def pinning_that_may_fail() -> Iterator[Pinning]:
    """While entered, a batch that cannot be pinned stays in pageable memory, instead of ending the training.

    The driver may refuse to lock memory: in a container, under WSL, with little memory left. After a refusal nothing more
    is tried, since each attempt takes time.
    """
    from torch.utils.data._utils import pin_memory as module

    patches, pinning = AttributePatches(), Pinning()
    original: Callable[..., Any] = module.pin_memory

    @functools.wraps(original)
    def pin_memory(data: Any, *device: Any) -> Any:
        if pinning.refusal:
            return data
        try:
            return original(data, *device)  # which calls this function for each part of a batch
        except RuntimeError as error:
            pinning.refusal = (str(error).strip() or type(error).__name__).splitlines()[0]
            return data

    patches.add(module, "pin_memory", pin_memory)
    _in_force.append(pinning)
    try:
        yield pinning
    finally:
        _in_force.remove(pinning)
        patches.take_back()


@contextmanager
def copies_that_do_not_wait(on_copy: Callable[[], None]) -> Iterator[None]:
    """While entered, `tensor.to(gpu)` and `tensor.cuda()` return at once where the tensor lies in pinned memory."""
    import torch

    from accel.techniques.data.copies_without_waiting import without_waiting

    patches = AttributePatches()
    for name in ("to", "cuda"):
        patches.add(
            torch.Tensor, name, without_waiting(at_callers_line(getattr(torch.Tensor, name)), on_copy)
        )
    patches.see_compiler()
    try:
        yield
    finally:
        patches.take_back()


class PinnedBatches(IteratorMaker):
    """Looks at the batches of a loader: do their tensors lie in pinned memory?"""

    tensors = 0
    pinned = 0

    def change(self, iterator: Any) -> None:
        after_each_batch(iterator, self._look)

    def _look(self, batch: Any) -> Any:
        import torch
        from torch.utils._pytree import tree_leaves

        for part in tree_leaves(batch):
            if isinstance(part, torch.Tensor) and part.device.type == "cpu":
                self.tensors += 1
                self.pinned += part.is_pinned()
        return batch


def why_not_on_gpu(workload: Workload, machine: Machine) -> list[Reason]:
    """Why batches cannot go to a GPU here: there is none, torch cannot use it, or the model is somewhere else."""
    import torch

    if not torch.cuda.is_available():
        if machine.gpus:
            return [
                Reason(
                    f"This torch ({machine.torch}) cannot use the GPU that is here",
                    "Install a build of torch with CUDA; %accel doctor tells more.",
                )
            ]
        return [
            Reason(
                "There is no CUDA GPU here, and batches need not be copied to one", "Leave this off on a CPU."
            )
        ]
    current = torch.cuda.current_device()
    reasons = []
    for name, model in workload.objects().models.items():
        device = next((p.device for p in model.parameters()), torch.device("cuda", current))
        if device.type != "cuda":
            reasons.append(
                Reason(
                    f"{name} lies on the {device.type.upper()}",
                    f"Move it to the GPU with {name}.cuda(), or leave this off.",
                )
            )
        elif device.index != current:
            reasons.append(
                Reason(
                    f"{name} lies on GPU {device.index}, and the current one is GPU {current}",
                    f"Call torch.cuda.set_device({device.index}) first.",
                )
            )
    return reasons


def why_not_pinned(name: str, loader: DataLoader[Any], argument: str) -> list[Reason]:
    """Why the batches of a loader cannot be copied out of pinned memory; `argument` is what to write instead."""
    if find_maker(loader, PinnedBatches) is not None:
        return []  # ours, kept: the reasons below were looked at then
    if keeps_own_workers(loader):
        return [Reason(f"{name} keeps worker processes of its own (persistent_workers=True)", argument)]
    if lies_on_gpu(loader.dataset):
        return [Reason(f"The data of {name} lies on the GPU already", "Leave this off.")]
    return []
