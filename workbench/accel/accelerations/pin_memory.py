"""Batches in pinned memory, and copies to the GPU that the training does not wait for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.data.loader_iterators import changed_attributes, changed_iterators, find_maker
from accel.techniques.data.pinning import (
    PinnedBatches,
    copies_that_do_not_wait,
    current_pinning,
    pinning_that_may_fail,
    why_not_on_gpu,
    why_not_pinned,
)
from accel.techniques.model.model_call import distinct
from accel.techniques.source.plain_source import plain_source
from accel.techniques.source.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

_ARGUMENT = "Write pin_memory=True where you build it."


@dataclass(frozen=True)
class PinMemory:
    """Put batches into pinned memory, from which a GPU fetches them while the program goes on.

    What it does
        Sets `pin_memory` of each DataLoader, in place, from its next epoch on. With `non_blocking`, `.to(gpu)` and
        `.cuda()` of a tensor in pinned memory return at once; the GPU still does its work in order, so the numbers are
        the same. Where the driver refuses to pin (containers, WSL, little memory), training goes on with pageable
        memory, and the proof says what the driver said.
    When it helps
        On a GPU, where a profile shows time in copies from pageable memory. With worker processes a thread pins the
        next batch while this one is trained on.
    When it hurts
        Without worker processes pinning a batch is one more copy, made while the GPU waits. Pinned memory cannot be
        swapped out: with large batches and many prefetched ones the rest of the machine gets short of it. A tensor on
        the CPU that is changed right after it was copied without waiting may be copied as it is afterwards. On a CPU
        there is nothing to gain. Not measured here yet.
    In plain PyTorch
        loader = DataLoader(dataset, batch_size=64, num_workers=2, pin_memory=True)
        images = images.to(device, non_blocking=True)
    References
        https://docs.pytorch.org/docs/stable/data.html#memory-pinning
        https://docs.pytorch.org/tutorials/intermediate/pinmem_nonblock.html
    """

    non_blocking: bool = True

    name: ClassVar[str] = "pin_memory"
    layer: ClassVar[Layer] = "data"
    effect: ClassVar[Effect] = "exact"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No GPU, no DataLoader, or one whose batches are pinned or lie on the GPU already."""
        replica = workload.objects()
        reasons = why_not_on_gpu(workload, machine)
        reasons += nothing_seen(workload, "loaders")
        for name, loader in distinct(replica.loaders):
            reasons += why_not_pinned(name, loader, _ARGUMENT)
            if loader.pin_memory and find_maker(loader, PinnedBatches) is None and not self.non_blocking:
                reasons.append(Reason(f"{name} pins its batches already", "Nothing needs to be done."))
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set the attribute of each loader; copies that do not wait are for the whole process."""
        with ExitStack() as stack:
            if replica.is_process_wide:
                pinning = stack.enter_context(pinning_that_may_fail())
                if self.non_blocking:
                    stack.enter_context(copies_that_do_not_wait(pinning.count_copy))
            for name, loader in distinct(replica.loaders):
                if not why_not_pinned(
                    name, loader, _ARGUMENT
                ):  # one that the cell builds was not asked before
                    stack.enter_context(changed_iterators(loader, PinnedBatches))
                    stack.enter_context(changed_attributes(loader, pin_memory=True))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether the tensors of the batches lay in pinned memory, and what the driver said if not."""
        makers = [find_maker(loader, PinnedBatches) for _, loader in distinct(replica.loaders)]
        tensors = sum(maker.tensors for maker in makers if maker is not None)
        pinned = sum(maker.pinned for maker in makers if maker is not None)
        evidence = f"{pinned} of {tensors} tensors came in pinned memory"
        pinning = current_pinning()
        if pinning is not None and pinning.copies:
            evidence += f", and {pinning.copies} copies to the GPU were not waited for"
        if pinning is not None and pinning.refusal:
            evidence += f"; memory could not be pinned: {pinning.refusal}"
        return Proof(None not in makers and 0 < pinned == tensors, evidence)

    def as_code(self, workload: Workload) -> str:
        """Set the attribute of the loaders that are there; copies that do not wait replace two methods of tensors."""
        parts = [f"{name}.pin_memory = True" for name in names_of(workload, "loaders")]
        if self.non_blocking:
            from accel.techniques.data import copies_without_waiting

            parts += [
                "",
                "# Where you can, write images.to(device, non_blocking=True) in the loop instead of the lines below.",
                plain_source(copies_without_waiting),
                "",
                'if not hasattr(torch.Tensor.to, "is_without_waiting"):  # this cell may run again',
                "    torch.Tensor.to = without_waiting(torch.Tensor.to)",
                "    torch.Tensor.cuda = without_waiting(torch.Tensor.cuda)",
            ]
        return "\n".join(parts) + "\n"
