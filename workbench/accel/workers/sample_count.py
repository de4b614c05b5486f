"""In a worker: how many samples go through each step, so that steps of different size can be compared per sample.

Counted is the batch that a DataLoader gave last before a backward pass: batches of a validation are not trained on, and the
second backward of a GAN's step trains on no further samples. The few microseconds that this takes
are no part of the step: `leave_out` hears of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accel.hooks.attribute_patches import AttributePatches
from accel.hooks.training_loop import wrap_batch
from accel.workload.loop_record import noting_indices, samples_drawn


class SampleCount:
    """Counts while entered; the step gate calls `backward` and `step`.

    >>> with SampleCount(samples_per_batch=64) as count:
    ...     batch = next(iter(loader)); count.backward(); count.step()
    64

    `samples_per_batch` is what a backward pass counts in a cell whose batches come from no DataLoader.
    """

    def __init__(
        self, samples_per_batch: int, leave_out: Callable[[int], None] = lambda since_ns: None
    ) -> None:
        self._unseen, self._leave_out = samples_per_batch, leave_out
        self._is_fed_by_loader = False
        self._fetched = self._in_step = self._last_step = 0
        self._patches = AttributePatches()

    def __enter__(self) -> SampleCount:
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        wrap_batch(self._patches, self._next_batch)
        self._patches.wrap(_BaseDataLoaderIter, "_next_index", noting_indices)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._patches.take_back()

    def _next_batch(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def next_batch(iterator: Any) -> Any:
            batch = original(iterator)
            came_ns = time.perf_counter_ns()
            self._is_fed_by_loader = True
            self._fetched = samples_drawn(iterator, batch)
            self._leave_out(came_ns)
            return batch

        return next_batch

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Batches that are fetched while paused are none of the training's: held-out data are read between two steps."""
        before = self._is_fed_by_loader, self._fetched
        try:
            yield
        finally:
            self._is_fed_by_loader, self._fetched = before

    def backward(self) -> None:
        """A backward pass has ended."""
        self._in_step += self._fetched if self._is_fed_by_loader else self._unseen
        self._fetched = 0

    def step(self) -> int:
        """Samples of the step that ends now; as many as in the one before where its batch was fetched long ago."""
        self._last_step = self._in_step or self._last_step
        self._in_step = 0
        return self._last_step
