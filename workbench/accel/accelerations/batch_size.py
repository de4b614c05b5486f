"""More (or fewer) samples a step, and a learning rate that goes with it."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.techniques.model.model_call import distinct
from accel.techniques.source.user_names import names_of
from accel.techniques.steps.step_learning_rate import scaled_in_steps, scaled_in_steps_code, scaled_steps

if TYPE_CHECKING:
    from torch.utils.data import DataLoader
    from torch.utils.data.sampler import BatchSampler

    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class BatchSize:
    """Put `factor` times as many samples into each batch, and raise the learning rate by a rule or leave it.

    What it does
        Sets the batch size of each DataLoader and of its batch sampler, in place: the samples come in the same order,
        cut into other batches. With `lr_rule="linear"` each optimizer step uses `factor` times the learning rate, with
        "sqrt" its square root; the optimizer and its schedulers keep the rate that you gave them, and show it.
    When it helps
        Where much of a step costs the same whatever the batch: updating weights, calling operations, a GPU that waits.
        Trials compare it by the time of a sample, since its steps are longer and fewer.
    When it hurts
        It changes training: an epoch has fewer updates, so that at the same learning rate the model comes less far. On
        the course's CNN, 10 epochs of Fashion-MNIST took 148 s for 83.99 % at batch 64, 96 s for 82.14 % at 128 and 76 s
        for 80.01 % at 256: less time, and less learnt. Compare the time to the same quality, not the epoch. Larger
        is not always faster per sample either: the course's CNN on a CPU was measured at ×1.08 [1.06, 1.10] with 128
        samples and at ×0.88 [0.87, 0.91] with 256, whose activations no longer fit the caches. Activations take
        `factor` times the memory. BatchNorm sees other statistics. Loaders of a validation are changed too.
        Schedulers that count batches go `factor` times as slowly through the data.
    In plain PyTorch
        loader = DataLoader(dataset, batch_size=2 * 64, shuffle=True)
        optimizer = torch.optim.Adam(model.parameters(), lr=2 * 1e-3)
    References
        https://arxiv.org/abs/1706.02677 (linear scaling of the learning rate)
        https://arxiv.org/abs/1404.5997 (square root scaling)
    """

    factor: float = 2.0
    lr_rule: Literal["none", "linear", "sqrt"] = "none"

    name: ClassVar[str] = "batch_size"
    layer: ClassVar[Layer] = "batch"
    effect: ClassVar[Effect] = "changes training"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if not 0 < self.factor < float("inf") or self.factor == 1:
            raise AccelError(
                f"batch_size(factor={self.factor})",
                because="factor is a number above 0 that is not 1",
                do="Write factor=2 for batches twice as large, factor=0.5 for half.",
            )

    @property
    def changes(self) -> tuple[str, ...]:
        """Loaders; and optimizers where the learning rate follows."""
        return ("loaders",) if self.rate == 1.0 else ("loaders", "optimizers")

    @property
    def rate(self) -> float:
        """What the learning rate is multiplied by."""
        return {"none": 1.0, "linear": float(self.factor), "sqrt": math.sqrt(self.factor)}[self.lr_rule]

    @property
    def saves_memory(self) -> bool:
        """Whether the batches are smaller."""
        return self.factor < 1

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """Batches that no loader cuts, or that are cut by something else than a batch size."""
        import torch

        replica = workload.objects()
        if not replica.loaders and not names_of(workload, "loaders"):
            return [
                Reason(
                    "No DataLoader was seen in the cell: it makes its batches itself",
                    "Change their size where it does, or put the data into a torch.utils.data.DataLoader.",
                )
            ]
        reasons = [
            reason
            for name, loader in distinct(replica.loaders)
            for reason in _why_not_loader(name, loader, self.factor)
        ]
        if self.rate != 1.0 and not replica.optimizers and not names_of(workload, "optimizers"):
            reasons.append(
                Reason(
                    "No optimizer was seen in the cell whose learning rate could follow the batch",
                    'Use lr_rule="none", and raise the rate in your own update.',
                )
            )
        if self.rate != 1.0:
            reasons += [
                Reason(
                    f"{name} is an LBFGS, whose line search has its own idea of a step",
                    'Use lr_rule="none" with it.',
                )
                for name, optimizer in distinct(replica.optimizers)
                if isinstance(optimizer, torch.optim.LBFGS)
            ]
        return reasons

    def other_settings(self, machine: Machine) -> tuple[BatchSize, ...]:
        """A quarter of this batch; twice and four times it with a learning rate that grows alike, as larger batches need."""
        factors = (self.factor * times for times in (0.25, 2.0, 4.0))
        return tuple(
            replace(
                self,
                factor=factor,
                lr_rule="linear" if factor > 1.0 and self.lr_rule == "none" else self.lr_rule,
            )
            for factor in factors
            if factor != 1.0
        )

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set the sizes of loaders and their samplers; scale the learning rate inside each optimizer's steps."""
        with ExitStack() as stack:
            for name, loader in distinct(replica.loaders):
                if not _why_not_loader(
                    name, loader, self.factor
                ):  # one that the cell builds was not asked before
                    stack.enter_context(self._cut_otherwise(loader))
            if self.rate != 1.0:
                for _, optimizer in distinct(replica.optimizers):
                    stack.enter_context(scaled_in_steps(optimizer, self.rate))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many samples the batch samplers put together, and at what learning rate steps were taken."""
        cuts = [
            (cut, _sampler(loader))
            for _, loader in distinct(replica.loaders)
            if (cut := _cuts.get(_sampler(loader)))
        ]
        if not cuts:
            return Proof(False, "no loader's batches were changed")
        read = [cut for cut, _ in cuts if cut.largest]
        sizes = ", ".join(f"{cut.largest} samples instead of {cut.before}" for cut in read)
        evidence = f"batches of {sizes}" if read else "no loader began an epoch since"
        is_cut = bool(read) and all(cut.largest == cut.scaled(self.factor) for cut in read)
        if self.rate == 1.0:
            return Proof(is_cut, evidence)
        rates = [scaled_steps(optimizer) for _, optimizer in distinct(replica.optimizers)]
        is_scaled = bool(rates) and all(math.isclose(rate, self.rate, rel_tol=1e-4) for rate in rates)
        return Proof(
            is_cut and is_scaled, f"{evidence}; learning rate in steps ×{min(rates, default=1.0):.3g}"
        )

    def as_code(self, workload: Workload) -> str:
        """Set the sizes of the loaders that are there; a hook scales the learning rate round each step."""
        function = "use_larger_batches" if self.factor > 1 else "use_smaller_batches"
        parts = [
            f"def {function}(loader, factor={self.factor}):",
            "    sampler = loader.batch_sampler",
            "    # Its size of before is noted: this cell may run again.",
            '    size = vars(sampler).setdefault("_size_before", sampler.batch_size)',
            "    sampler.batch_size = max(1, round(size * factor))",
            "    if loader.batch_size is not None:",
            "        # vars(): a DataLoader refuses a new batch size once it is built.",
            '        vars(loader)["batch_size"] = sampler.batch_size',
            "",
            *(f"{function}({name})" for name in names_of(workload, "loaders")),
        ]
        if self.rate != 1.0:
            parts += ["", *scaled_in_steps_code(names_of(workload, "optimizers"), self.rate)]
        return "\n".join(parts) + "\n"

    @contextmanager
    def _cut_otherwise(self, loader: DataLoader[Any]) -> Iterator[None]:
        sampler: Any = loader.batch_sampler
        state, size = (
            vars(loader),
            loader.batch_size,
        )  # not setattr: DataLoader forbids a new size once it is built
        cut, is_first = _cuts.get(sampler), sampler not in _cuts
        if cut is None:  # two loaders may share a sampler, which is changed once
            cut = _cuts[sampler] = Cut(sampler.batch_size)
            sampler.batch_size = cut.scaled(self.factor)
            sampler.__class__ = _counting_sampler()
        if size is not None:
            state["batch_size"] = sampler.batch_size
        try:
            yield
        finally:
            if is_first:
                sampler.batch_size = cut.before
                sampler.__class__ = _plain_sampler()
                _cuts.pop(sampler, None)
            state["batch_size"] = size


@dataclass
class Cut:
    """The size of a batch sampler's batches before it was changed, and the largest that it put together since."""

    before: int
    largest: int = 0

    def scaled(self, factor: float) -> int:
        """Batches of at least one sample."""
        return max(1, round(self.before * factor))


_cuts: weakref.WeakKeyDictionary[BatchSampler, Cut] = weakref.WeakKeyDictionary()


def _plain_sampler() -> type[BatchSampler]:
    from torch.utils.data import BatchSampler

    return BatchSampler


@cache
def _counting_sampler() -> type[BatchSampler]:
    """What a changed sampler is an object of: epochs that began before it was changed go on as they began."""

    class CountingBatchSampler(_plain_sampler()):  # type: ignore[misc]
        def __iter__(self) -> Iterator[list[int]]:
            for batch in _plain_sampler().__iter__(self):  # not super(): undo may come before the first batch
                if cut := _cuts.get(self):
                    cut.largest = max(cut.largest, len(batch))
                yield batch

        def __reduce__(self) -> Any:  # a copy counts for nobody
            return _plain_sampler(), (self.sampler, self.batch_size, self.drop_last)

    return CountingBatchSampler


def _sampler(loader: DataLoader[Any]) -> Any:
    """What cuts its batches: while ranks share them out, that is inside of what does so."""
    sampler: Any = loader.batch_sampler
    inner = getattr(sampler, "inner", None)
    if type(inner) is _counting_sampler():
        return inner
    return sampler if sampler is not None else loader


def _why_not_loader(name: str, loader: DataLoader[Any], factor: float) -> list[Reason]:
    from torch.utils.data import BatchSampler

    sampler: Any = loader.batch_sampler
    if sampler is None:
        return [
            Reason(
                f"{name} has batch_size=None: its data set gives whole batches",
                "Change their size in the data set.",
            )
        ]
    if sampler not in _cuts and type(sampler) is not BatchSampler:
        return [
            Reason(
                f"{name} cuts its batches with a {type(sampler).__name__}, which has rules of its own",
                "Change the size where you build that sampler.",
            )
        ]
    cut = _cuts.get(sampler) or Cut(sampler.batch_size)
    if cut.scaled(factor) == cut.before:
        return [
            Reason(
                f"{name} has batches of {cut.before}, and ×{factor:g} of that is the same",
                "Choose another factor.",
            )
        ]
    samples = _count(sampler)
    if samples is not None and cut.scaled(factor) > samples:
        return [
            Reason(
                f"{name} has {samples:,} samples, fewer than a batch of {cut.scaled(factor):,}",
                "Choose a smaller factor, or use more data.",
            )
        ]
    return []


def _count(sampler: BatchSampler) -> int | None:
    """Samples of an epoch; None where nobody can say before it is over."""
    from torch.utils.data.dataloader import _InfiniteConstantSampler

    if isinstance(sampler.sampler, _InfiniteConstantSampler):
        return None
    try:
        return len(sampler.sampler)  # type: ignore[arg-type]
    except TypeError:  # a sampler need not know
        return None
