"""A DataLoader of the cell gives each rank its part: what it samples is the same everywhere, and then shared out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from typing import TYPE_CHECKING, Any

from accel.distributed.data_parallel.lineages import Lineages, WorkerStart
from accel.distributed.data_parallel.shares import BatchMeans, Share, shares_of, steps_of
from accel.errors import AccelError
from accel.techniques.model.own_attribute import own_attribute

if TYPE_CHECKING:
    from torch.utils.data import DataLoader

_MOST_LISTED = (
    10_000  # batches of an epoch; drawing them one by one costs the time of changing generators each step
)


class SharedSampling:
    """Takes the place of a loader's batch sampler (or of its sampler, where it makes no batches) while the ranks train with it.

    >>> sampling = SharedSampling(loader.batch_sampler, lineages, rank=0, world_size=2, batch="per-rank", drop_last=False)
    >>> list(sampling)        # rank 0's batches of this epoch

    `is_shared` off: it samples as the user's own does, as for measuring the training accuracy.
    """

    def __init__(
        self,
        inner: Any,
        lineages: Lineages,
        *,
        rank: int,
        world_size: int,
        batch: BatchMeans,
        drop_last: bool,
    ) -> None:
        self.inner, self._lineages = inner, lineages
        self._rank, self._world_size, self._batch, self._drop_last = rank, world_size, batch, drop_last
        self.is_shared = True
        self.shares: list[Share] = []  # of the epoch that was begun last, as far as they are drawn
        self.steps: int | None = None  # of that epoch, where it is known

    def __iter__(self) -> Iterator[Any]:
        if not self.is_shared:
            yield from self.inner
            return
        length = len(self.inner) if hasattr(self.inner, "__len__") else None
        if length is None or length > _MOST_LISTED:
            yield from self._step_by_step(length)
            return
        with self._lineages.shared():  # when the first batch is asked for, as torch's own samplers do
            batches = list(self.inner)[self._lineages.batches_over :]
        self.shares = self._shares_of(batches, drop_last=self._drop_last)
        self.steps = len(self.shares)
        yield from (share.indices for share in self.shares)

    def _step_by_step(self, length: int | None) -> Iterator[Any]:
        """A sampler that does not know its length may have none, and one may be huge: a step's batches at a time."""
        over = self._lineages.batches_over
        drawn, self.shares = islice(iter(self.inner), over, None), []
        self.steps = None if length is None else self._steps_of(length - over)
        each_step = 1 if self._batch == "global" else self._world_size
        first: list[Any] = []
        while True:
            with self._lineages.shared():
                batches = list(islice(drawn, each_step))
            first = first or batches
            if len(batches) < each_step and (not batches or self._drop_last or length is None):
                return
            share = self._shares_of([*batches, *first][:each_step], drop_last=True)[0]
            without = Share(None, share.weight, share.is_whole)  # else an epoch's indices would pile up
            self.shares.append(self.shares[-1] if self.shares and self.shares[-1] == without else without)
            yield share.indices

    def _shares_of(self, batches: list[Any], *, drop_last: bool) -> list[Share]:
        return shares_of(
            batches, rank=self._rank, world_size=self._world_size, batch=self._batch, drop_last=drop_last
        )

    def _steps_of(self, batches: int) -> int:
        return steps_of(batches, world_size=self._world_size, batch=self._batch, drop_last=self._drop_last)

    def __len__(self) -> int:
        return self._steps_of(len(self.inner)) if self.is_shared else len(self.inner)


class SharedLoader:
    """One of the cell's loaders, shared out among the ranks; `close` gives it back as it was.

    >>> shared = SharedLoader(loader, lineages, rank=0, world_size=2, batch="global")
    """

    def __init__(
        self, loader: DataLoader[Any], lineages: Lineages, *, rank: int, world_size: int, batch: BatchMeans
    ) -> None:
        from torch.utils.data import IterableDataset

        self.loader, self._lineages = loader, lineages
        self._rank, self._world_size = rank, world_size
        self._undo = ExitStack()
        self.sampling: SharedSampling | None = None
        self.samples_in_order = isinstance(loader.dataset, IterableDataset)
        if self.samples_in_order:
            if batch == "global" and world_size > 1:
                raise AccelError(
                    "--batch global",
                    because="an IterableDataset gives batches in its own order, which cannot be cut before they are read",
                    do="Use --batch per-rank: each rank takes every n-th batch.",
                )
        else:
            name = "batch_sampler" if loader.batch_sampler is not None else "sampler"
            if batch == "global" and name == "sampler" and world_size > 1:
                raise AccelError(
                    "--batch global",
                    because="this loader's data set makes the batches itself (batch_size=None)",
                    do="Use --batch per-rank: each rank takes every n-th of them.",
                )
            self.sampling = SharedSampling(
                getattr(loader, name), lineages, rank=rank, world_size=world_size, batch=batch,
                drop_last=bool(loader.drop_last),
            )  # fmt: skip
            self._undo.enter_context(own_attribute(loader, name, self.sampling))
        if lineages.stands_for_ranks:  # whose samples are fetched here
            lineages.has_replaced_workers |= loader.num_workers > 0
            self._undo.enter_context(own_attribute(loader, "num_workers", 0))
            self._undo.enter_context(own_attribute(loader, "timeout", 0))
        starts = WorkerStart(rank, loader.worker_init_fn)
        self._undo.enter_context(own_attribute(loader, "worker_init_fn", starts))

    def batches(self, original: Any) -> Iterator[tuple[Any, Share, bool]]:
        """(batch, share, whether it is known to be the last) of this rank, from what the loader's own `__iter__` gives."""
        with (
            self._lineages.shared()
        ):  # now: making the iterator draws a seed, whether or not it is ever asked for a batch
            given = original(self.loader)
        if self.sampling is None:
            return ((batch, Share(None), False) for batch in self._every_nth(given))
        return self._weighted(given, self.sampling)

    def _weighted(self, given: Iterator[Any], sampling: SharedSampling) -> Iterator[tuple[Any, Share, bool]]:
        for number, batch in enumerate(given):
            yield batch, sampling.shares[number], number + 1 == sampling.steps

    def _every_nth(self, given: Iterator[Any]) -> Iterator[Any]:
        """Of each full group of batches this rank's; what is left at the end would not go round."""
        group: list[Any] = []
        for batch in islice(given, self._lineages.batches_over, None):
            group.append(batch)
            if len(group) == self._world_size:
                yield group[self._rank]
                group = []

    def close(self) -> None:
        """Give the loader back as it was."""
        self._undo.close()
