"""Load batches in worker processes, ahead of the training step."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.techniques.data.fit_for_workers import (
    asks_which_worker,
    lies_on_gpu,
    why_not_sent,
    why_not_so_many,
)
from accel.techniques.data.loader_iterators import (
    IteratorMaker,
    changed_attributes,
    changed_iterators,
    find_maker,
)
from accel.techniques.model.model_call import distinct
from accel.techniques.source.plain_source import plain_source
from accel.techniques.source.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

    from accel.machine import Machine
    from accel.workload import Replica, Workload


NO_EPOCH = "no epoch has started since the change"


@dataclass(frozen=True)
class LoaderWorkers:
    """Let n worker processes prepare batches during training; with n=0 the training process makes each batch.

    What it does
        Sets `num_workers`, `prefetch_factor` and `persistent_workers` of each DataLoader, in place, from its next
        epoch on. The order of the samples stays the same: with a data set that always gives the same sample for an
        index, the losses are equal bit for bit. A loader that keeps its workers (`persistent_workers=True`) goes on
        keeping them.
    When it helps
        Where a profile shows time spent waiting for data that is decoded or augmented in Python. n=0 helps where a
        loader has workers, and sending a batch takes longer than making it.
    When it hurts
        Data that lies ready in memory: sending a batch between processes costs more than making it. Each epoch
        starts its workers anew unless `persistent=True`; short epochs then consist of starting them. Workers take
        cores from training, and copies of what the data set holds in Python objects; more of them than cores gain
        only where loading waits for a disk or a network. It is exact for data that are the same each time: random
        augmentation draws other numbers in a worker than in the training process, for other losses, equally good
        ones, and a trial then says that they drift. A generator that the data set keeps for itself is copied into
        each worker, anew in each epoch, and all draw the same numbers: seed it in `worker_init_fn`, or augment with
        torch's own generator. An epoch that is running when this is switched on or off goes on as it began.
    In plain PyTorch
        loader = DataLoader(dataset, batch_size=64, shuffle=True, num_workers=2, prefetch_factor=2)
    References
        https://docs.pytorch.org/docs/stable/data.html#multi-process-data-loading
        https://github.com/pytorch/pytorch/issues/13246 (memory of workers grows with Python objects)
    """

    n: int = 2
    prefetch_factor: int = 2
    persistent: bool = False

    name: ClassVar[str] = "loader_workers"
    layer: ClassVar[Layer] = "data"
    effect: ClassVar[Effect] = "exact"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for knob, least in (("n", 0), ("prefetch_factor", 1)):
            if getattr(self, knob) < least:
                raise AccelError(
                    f"loader_workers({knob}={getattr(self, knob)})",
                    because=f"{knob} is at least {least}",
                    do=f"Write {knob}={least} or more.",
                )

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No DataLoader, no core or shared memory to spare, or data that cannot be loaded by several processes."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "loaders"):
            return unseen
        loaders = distinct(replica.loaders)
        others = [(name, loader) for name, loader in loaders if not _has_already(loader, self.n)]
        return why_not_so_many(workload, machine, self.n, self.prefetch_factor) + [
            reason for name, loader in others or loaders for reason in _why_not_loader(name, loader, self.n)
        ]

    def other_settings(self, machine: Machine) -> tuple[LoaderWorkers, ...]:
        """Half as many workers, twice as many, and as many that stay from epoch to epoch."""
        counts = {self.n // 2, 2 * self.n or 1} - {self.n}
        others = [replace(self, n=n, persistent=self.persistent and n > 0) for n in sorted(counts)]
        return (*others, *([replace(self, persistent=not self.persistent)] if self.n else []))

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set the attributes of each loader."""
        with ExitStack() as stack:
            for name, loader in distinct(replica.loaders):
                if not _why_not_loader(name, loader, self.n):  # one that the cell builds was not asked before
                    stack.enter_context(self._with_workers(loader))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many worker processes the loaders' iterators started."""
        loaders = distinct(replica.loaders)
        starters = {name: find_maker(loader, _WorkerStarter) for name, loader in loaders}
        left_alone = [
            str(reason)
            for name, loader in loaders
            if starters[name] is None
            for reason in _why_not_loader(name, loader, self.n)
        ]
        started = [starter.processes for starter in starters.values() if starter is not None]
        known = [count for count in started if count is not None]
        evidence = f"an epoch's batches came from {max(known)} worker processes" if known else NO_EPOCH
        return Proof(self.n in started, ". ".join([evidence, *left_alone]).removesuffix("."))

    def as_code(self, workload: Workload) -> str:
        """Set the attributes of the loaders that are there; every function that holds one sees the change."""
        from accel.techniques.data import each_iterator, same_order

        settings = ", ".join(f"{name}={value}" for name, value in self.settings.items())
        loaders = workload.objects().loaders
        names = [
            name
            for name in names_of(workload, "loaders")
            if name not in loaders or not _has_already(loaders[name], self.n)
        ]
        keeping = {name for name in names if name in loaders and _keeps_own(loaders[name])}
        drawing = set(names) - keeping if self.persistent and self.n else set()
        parts = [plain_source(same_order), "", plain_source(each_iterator), ""] if drawing else []
        for name in names:
            parts.append("# vars(): a DataLoader refuses some of these as attributes once it is built.")
            persistent = f"persistent_workers={self._are_kept(name in keeping)}, _iterator=None"
            parts.append(f"vars({name}).update({settings}, {persistent})")
            if name in drawing:
                parts.append(f"change_each_iterator({name}, draws_each_epoch=draw_each_epoch)")
        return "\n".join(parts) + "\n"

    @property
    def settings(self) -> dict[str, int | None]:
        """The DataLoader's attributes to set; without workers, those that configure workers are unset."""
        if not self.n:
            return {"num_workers": 0, "prefetch_factor": None, "timeout": 0}
        return {"num_workers": self.n, "prefetch_factor": self.prefetch_factor}

    def _are_kept(self, keeps_own: bool) -> bool:
        return self.n > 0 and (self.persistent or keeps_own)

    @contextmanager
    def _with_workers(self, loader: DataLoader[Any]) -> Iterator[None]:
        keeps_own = _keeps_own(loader)
        ours = self.settings | {"persistent_workers": self._are_kept(keeps_own)}
        with changed_iterators(loader, partial(_WorkerStarter, keeps_own=keeps_own)) as starter:
            try:
                with changed_attributes(loader, **ours, _iterator=None):
                    yield
            finally:
                starter.stop_persistent()


class _WorkerStarter(IteratorMaker):
    """Makes a loader's iterators, counts their processes, and keeps the order of the samples as it was."""

    def __init__(
        self, loader: DataLoader[Any], inner: Callable[[], Any] | None = None, keeps_own: bool = False
    ) -> None:
        super().__init__(loader, inner)
        self.keeps_own = keeps_own
        self._iterators: weakref.WeakSet[Any] = weakref.WeakSet()
        self.processes: int | None = None  # most workers that an iterator started; None before the first one

    def change(self, iterator: Any) -> None:
        from accel.techniques.data.same_order import draw_each_epoch

        self._iterators.add(iterator)
        alive = sum(worker.is_alive() for worker in getattr(iterator, "_workers", ()))
        self.processes = max(self.processes or 0, alive)
        if not self.keeps_own:
            draw_each_epoch(iterator)

    def knobs(self) -> tuple[bool]:
        return (self.keeps_own,)

    def stop_persistent(self) -> None:
        """End worker processes that would wait for another epoch; an epoch that somebody is reading goes on."""
        for iterator in list(self._iterators):
            if getattr(iterator, "_persistent_workers", False):
                iterator._shutdown_workers()


def _keeps_own(loader: DataLoader[Any]) -> bool:
    """Whether the user keeps workers from epoch to epoch: then only the first draws a seed, with ours as with theirs."""
    starter = find_maker(loader, _WorkerStarter)
    return starter.keeps_own if starter else bool(loader.persistent_workers and loader.num_workers)


def _has_already(loader: DataLoader[Any], n: int) -> bool:
    """Whether the user's own loader has `n` workers; the plan can still change the cell's other loaders."""
    return loader.num_workers == n and find_maker(loader, _WorkerStarter) is None


def _why_not_loader(name: str, loader: DataLoader[Any], n: int) -> list[Reason]:
    from torch.utils.data import IterableDataset

    if find_maker(loader, _WorkerStarter) is not None:
        return []  # ours, kept: the reasons below were looked at then
    reasons = []
    if isinstance(loader.dataset, IterableDataset) and loader.num_workers != n:
        reasons.append(_of_a_stream(name, loader))
    if _has_already(loader, n):
        reasons.append(
            Reason(f"{name} has {n} worker processes already", "Choose another n, or leave this off.")
        )
    return reasons + (_why_not_worked(name, loader) if n else _why_not_alone(name, loader))


def _why_not_worked(name: str, loader: DataLoader[Any]) -> list[Reason]:
    """Reasons against worker processes."""
    if not lies_on_gpu(loader.dataset):
        return why_not_sent(name, loader)
    lies = f"The data of {name} lies on the GPU, where worker processes cannot read it"
    return [Reason(lies, "Leave this off."), *why_not_sent(name, loader)]


def _why_not_alone(name: str, loader: DataLoader[Any]) -> list[Reason]:
    """Reasons against having no workers: things that only workers do."""
    only = []
    if loader.worker_init_fn is not None:
        only.append(f"{name} has a worker_init_fn, which runs only in workers")
    if _keeps_own(loader):
        only.append(
            f"{name} keeps its workers and their seed (persistent_workers); without workers, each epoch has a new seed"
        )
    return [Reason(each, "Set num_workers=0 in the DataLoader itself, and profile again.") for each in only]


def _of_a_stream(name: str, loader: DataLoader[Any]) -> Reason:
    """Why another number of workers would repeat or reorder the samples of an IterableDataset."""
    if not loader.worker_init_fn and not asks_which_worker(loader.dataset):
        return Reason(
            f"{name} reads an IterableDataset, and every worker would yield all of its samples",
            "Use a data set with indices, or split the samples with get_worker_info().",
        )
    return Reason(
        f"{name} reads an IterableDataset that may split its samples among workers: another n may change the sample order",
        "Set num_workers in the DataLoader itself, and profile again.",
    )
