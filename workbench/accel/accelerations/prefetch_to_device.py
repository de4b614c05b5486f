"""Copy the next batches to the GPU while it works on this one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.techniques.data.each_batch import after_each_batch
from accel.techniques.data.loader_iterators import (
    IteratorMaker,
    changed_attributes,
    changed_iterators,
    find_maker,
)
from accel.techniques.data.pinning import pinning_that_may_fail, why_not_on_gpu, why_not_pinned
from accel.techniques.model.model_call import distinct
from accel.techniques.source.plain_source import plain_source
from accel.techniques.source.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from accel.machine import Machine
    from accel.workload import Replica, Workload

_ARGUMENT = "Build it without persistent_workers=True and try loader_workers(persistent=True) with this, or leave this off."


@dataclass(frozen=True)
class PrefetchToDevice:
    """Copy the next batches to the GPU on a stream of its own while it works on this one.

    What it does
        Each DataLoader, changed in place from its next epoch on, takes `batches` batches more than were asked for, and
        starts their copies out of pinned memory during the computation. What the loop gets lies on the current GPU
        already; its own `.to(device)` then has nothing to do. Order and values stay the same. Where making a batch
        draws random numbers in the training process, nothing is taken ahead, since they would come in another order.
    When it helps
        On a GPU that waits for copies in a profile: large images, many channels, a short step.
    When it hurts
        It holds `batches` more batches in GPU memory, from a pool that the step's own tensors do not share. Where the
        loader itself is too slow there is nothing to copy ahead: use loader_workers with it. A batch that the loop
        wants on the CPU (for plotting, for numpy) arrives on the GPU. Batches of classes of their own are left where
        they are. Not measured here yet.
    In plain PyTorch
        with torch.cuda.stream(copies):
            following = next(batches).to(device, non_blocking=True)
        torch.cuda.current_stream().wait_stream(copies)
    References
        https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-streams
        https://docs.pytorch.org/docs/stable/generated/torch.Tensor.record_stream.html
    """

    batches: int = 2

    name: ClassVar[str] = "prefetch_to_device"
    layer: ClassVar[Layer] = "data"
    effect: ClassVar[Effect] = "exact"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.batches < 1:
            raise AccelError(
                f"prefetch_to_device(batches={self.batches})",
                because="at least one batch is taken ahead",
                do="Write batches=1 or more.",
            )

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No GPU, no DataLoader, or one whose batches lie on the GPU already."""
        replica = workload.objects()
        reasons = why_not_on_gpu(workload, machine)
        reasons += nothing_seen(workload, "loaders")
        return reasons + [
            reason
            for name, loader in distinct(replica.loaders)
            if find_maker(loader, _AheadMaker) is None
            for reason in why_not_pinned(name, loader, _ARGUMENT)
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Let each loader's iterators take batches ahead, from pinned memory."""
        with ExitStack() as stack:
            if replica.is_process_wide:
                stack.enter_context(pinning_that_may_fail())
            for name, loader in distinct(replica.loaders):
                if not why_not_pinned(
                    name, loader, _ARGUMENT
                ):  # one that the cell builds was not asked before
                    stack.enter_context(changed_iterators(loader, partial(_AheadMaker, batches=self.batches)))
                    stack.enter_context(changed_attributes(loader, pin_memory=True))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether tensors of batches were copied to the GPU before they were asked for."""
        makers = [find_maker(loader, _AheadMaker) for _, loader in distinct(replica.loaders)]
        ahead = sum(maker.given_ahead for maker in makers if maker is not None)
        device = next((maker.device for maker in makers if maker is not None), None)
        if device is None:
            return Proof(False, f"{ahead} batches were taken ahead, and none was copied to a GPU")
        copied = sum(maker.tensors_copied for maker in makers if maker is not None)
        evidence = f"{ahead} batches were taken ahead, and {copied} tensors copied to {device} for it"
        if ahead and not copied:
            evidence += "; the batches are of a class of their own, or lay there already"
        return Proof(None not in makers and ahead > 0 and copied > 0, evidence)

    def as_code(self, workload: Workload) -> str:
        """The class that takes batches ahead, and one line a loader that puts it into the loader's iterators."""
        from accel.techniques.data import batches_ahead, each_iterator

        parts = [plain_source(batches_ahead), "", plain_source(each_iterator), ""]
        parts.append(_AHEAD_CODE.format(batches=self.batches))
        for name in names_of(workload, "loaders"):
            parts += [
                f"{name}.pin_memory = True",
                f"change_each_iterator({name}, takes_ahead=take_ahead)",
            ]
        return "\n".join(parts) + "\n"


_AHEAD_CODE = """\
def take_ahead(iterator):
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else None
    look_ahead(iterator, {batches}, device)
"""


class _AheadMaker(IteratorMaker):
    """Makes iterators that take batches ahead, and remembers them."""

    def __init__(
        self, loader: DataLoader[Any], inner: Callable[[], Any] | None = None, batches: int = 1
    ) -> None:
        super().__init__(loader, inner)
        self._batches = batches
        self.given_ahead = self.tensors_copied = 0
        self.device: Any = None

    def change(self, iterator: Any) -> None:
        import torch

        from accel.techniques.data.batches_ahead import look_ahead

        if torch.cuda.is_available():
            self.device = torch.device("cuda", torch.cuda.current_device())
        ahead = look_ahead(iterator, self._batches, self.device)
        given, copied = self.given_ahead, self.tensors_copied

        def counted(batch: Any) -> Any:
            self.given_ahead = given + ahead.given_ahead
            self.tensors_copied = copied + ahead.tensors_copied
            return batch

        after_each_batch(
            iterator, counted
        )  # the iterator holds its batches, nobody else: they go when it goes

    def knobs(self) -> tuple[Any, ...]:
        return (self._batches,)
