"""The cell on several processes of this machine, data-parallel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.techniques.model.model_call import distinct
from accel.techniques.source.user_names import names_of, nothing_seen
from accel.units import counted

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload


class TrainingTogether(Protocol):
    """What a rank can read back of the training that it is part of."""

    def proof(self) -> Proof: ...


@dataclass(frozen=True)
class Ddp:
    """Train on n processes of this machine, each with a part of the samples, and exchange gradients in every step.

    What it does
        Runs the cell in n ranks with a copy of the model each, pinned to CPUs of their own (`threads` each; None: the usable
        ones, shared out evenly) or with a GPU each. Loaders that train give each rank its part, gradients become means over
        all ranks during the backward pass, and so all copies stay equal. `batch="per-rank"`: each rank takes a batch of
        yours, a step is one of n batches, and an epoch has n times fewer. `batch="global"`: each takes a part of the same
        batch, and a step is the one that a single process would have taken, but for rounding.
    When it helps
        Where one process leaves cores idle: operations too small for many threads, a loop that waits for Python, GPUs that
        are idle. Trials compare it by the time of a sample.
    When it hurts
        Per rank it changes training: fewer updates, each on n times the samples, as `batch_size(factor=n)` does; compare the
        time to the same quality. Gradients as large as the model travel in every step: a large model with a quick step waits
        for them. n processes hold n copies of the model, the optimizer's state and what the loaders have read. BatchNorm sees
        a rank's samples only. A notebook is one process, so this cannot be kept: `%%accel ddp` over the cell runs it so.
    In plain PyTorch
        dist.init_process_group("gloo")
        model = DistributedDataParallel(model)
        loader = DataLoader(dataset, batch_size=64, sampler=DistributedSampler(dataset))
    References
        https://arxiv.org/abs/2006.15704 (Li et al., PyTorch Distributed, VLDB 2020)
        https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    """

    n: int = 2
    threads: int | None = None
    batch: Literal["per-rank", "global"] = "per-rank"

    name: ClassVar[str] = "ddp"
    layer: ClassVar[Layer] = "distributed"
    effect: ClassVar[Effect] = "changes training"
    needs_own_process: ClassVar[bool] = False
    makes_ranks: ClassVar[bool] = True
    conflicts: ClassVar[tuple[str, ...]] = ("intraop_threads",)

    def __post_init__(self) -> None:
        if self.n < 2:
            raise AccelError(
                f"ddp(n={self.n})", because="with fewer than two ranks nothing is shared",
                do="Write n=2 or more.",
            )  # fmt: skip
        if self.threads is not None and self.threads < 1:
            raise AccelError(
                f"ddp(threads={self.threads})", because="a rank needs at least one thread",
                do="Write threads=1 or more, or leave it out.",
            )  # fmt: skip
        if self.batch == "global":  # the same steps as in one process: only sums are formed in another order
            object.__setattr__(self, "effect", "close")

    @property
    def command(self) -> str:
        """The line over a cell that trains it so.

        >>> Ddp(n=4, batch="global").command
        '%%accel ddp -n 4 --batch global'
        """
        threads = f" --threads {self.threads}" if self.threads is not None else ""
        return (
            f"%%accel ddp -n {self.n}{threads}{'' if self.batch == 'per-rank' else f' --batch {self.batch}'}"
        )

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """Too few CPUs or GPUs, batches that come from no loader or cannot be cut, a cell that joins ranks itself."""
        from accel.workload.names_used import names_used

        reasons = [*_here(), *self._too_few(workload, machine), *nothing_seen(workload, "loaders")]
        if "init_process_group" in names_used(workload):
            reasons.append(
                Reason(
                    "The cell makes a process group of its own", "Leave that out, and %%accel ddp brings one."
                )
            )
        if self.batch == "global":
            reasons += [
                reason
                for name, loader in distinct(workload.objects().loaders)
                for reason in _why_not_cut(name, loader)
            ]
        return reasons

    def other_settings(self, machine: Machine) -> tuple[Ddp, ...]:
        """Twice and four times as many ranks."""
        return tuple(replace(self, n=self.n * times) for times in (2, 4))

    def _too_few(self, workload: Workload, machine: Machine) -> list[Reason]:
        needed, cpus = self.n * (self.threads or 1), machine.usable_cores
        reasons = []
        if needed > cpus:
            fewer = f"Choose n={cpus} or fewer." if cpus > 1 else "Leave it off."
            each = f" of {self.threads} threads" if (self.threads or 1) > 1 else ""
            if each and self.n <= cpus:
                fewer = f"Choose threads={cpus // self.n} or fewer."
            reasons.append(
                Reason(f"{self.n} ranks{each} do not fit on {counted(cpus, 'usable core')}", fewer)
            )
        if workload.objects().device_type == "cuda" and (gpus := _gpus()) < self.n:
            there = "is one" if gpus == 1 else f"are {gpus}"
            fewer = f"Choose n={gpus} or fewer." if gpus > 1 else "Leave it off."
            reasons.append(Reason(f"The cell trains on a GPU, and for {self.n} ranks there {there}", fewer))
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Nothing of its own: the ranks are there before the cell begins. Raises AccelError where this process is none."""
        if not _training:
            raise AccelError(
                "ddp in this process", because="one process cannot be several",
                do=f"Put {self.command} over the cell.",
            )  # fmt: skip
        yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether gradients were exchanged, and the parameters are equal on all ranks: asked in every rank at once."""
        return _training[-1].proof() if _training else Proof(False, "this process trains alone")

    def as_code(self, workload: Workload) -> str:
        """For a script that torchrun starts on every rank: the group, the model's wrapper, a sampler for each loader."""
        backend = "nccl" if workload.objects().device_type == "cuda" else "gloo"
        loaders, models = names_of(workload, "loaders"), names_of(workload, "models")
        own_gpu = (
            backend == "nccl"
        )  # set before anything is computed; the model is on the first one until then
        to_own = '.to("cuda")' if own_gpu else ""
        parts = [
            *_HEAD.format(n=self.n, backend=backend).splitlines(),
            *(_OWN_GPU.splitlines() if own_gpu else []),
            *([f"torch.set_num_threads({self.threads})"] if self.threads else []),
            *_SHARED.format(size=_SIZE[self.batch]).splitlines(),
            "",
            *(f"{name} = shared_out({name})" for name in loaders),
            *(f"{name} = DistributedDataParallel({name}{to_own})" for name in models),
            *_REST.splitlines(),
        ]
        return "\n".join(parts) + "\n"


_SIZE = {
    "per-rank": "loader.batch_size",
    "global": "max(1, loader.batch_size // dist.get_world_size())",
}
_HEAD = """\
# For a script: torchrun --nproc-per-node {n} train.py
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data.distributed import DistributedSampler

if not dist.is_initialized():
    dist.init_process_group("{backend}")
"""
_OWN_GPU = """\

import os

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
"""
_SHARED = """

class EachEpochAnew(DistributedSampler):
    def __iter__(self):
        self.set_epoch(self.epoch + 1)  # else every epoch would have the same order
        return super().__iter__()


def shared_out(loader):
    sampler = EachEpochAnew(loader.dataset, shuffle=isinstance(loader.sampler, RandomSampler))
    return DataLoader(
        loader.dataset, batch_size={size}, sampler=sampler, num_workers=loader.num_workers,
        collate_fn=loader.collate_fn, pin_memory=loader.pin_memory, drop_last=loader.drop_last,
    )
"""
_REST = """
# Evaluate, print and save on one rank: if dist.get_rank() == 0, with model.module and a loader that is not shared out.
# At the end: dist.destroy_process_group()
"""

_training: list[TrainingTogether] = []  # that this process is a rank of


@contextmanager
def training_together(training: TrainingTogether) -> Iterator[None]:
    """While entered, this process is a rank: the plans that it applies may hold `ddp`.

    >>> with training_together(ranks), plan.apply(replica):
    ...     exec(code, namespace)
    """
    _training.append(training)
    try:
        yield
    finally:
        _training.remove(training)


def _here() -> list[Reason]:
    import torch.distributed as dist

    if not dist.is_available():
        return [
            Reason(
                "This torch was built without torch.distributed", "Install one with it, or leave this off."
            )
        ]
    if dist.is_initialized():
        return [Reason("This process is a rank already", "Leave ddp out of the plan.")]
    return []


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


def _why_not_cut(name: str, loader: Any) -> list[Reason]:
    from torch.utils.data import IterableDataset

    if isinstance(loader.dataset, IterableDataset):
        return [
            Reason(
                f"{name} reads an IterableDataset, whose batches cannot be cut before they are read",
                'Use batch="per-rank", where each rank takes every n-th.',
            )
        ]
    if loader.batch_sampler is None:
        return [
            Reason(
                f"{name} has batch_size=None: its data set gives whole batches",
                'Use batch="per-rank", where each rank takes every n-th.',
            )
        ]
    return []
