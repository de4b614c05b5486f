"""Random numbers of a rank: those that all draw alike, for the order of samples, and its own, for dropout and augmentation."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accel.workload.shipping import generator_states, restore_generators

_APART = 1_000_003  # between the seeds of two ranks: further than any number of loader workers


class Lineages:
    """All ranks begin with the notebook's generators. Sampling goes on from them, alike everywhere, without a message.

    >>> lineages = Lineages(rank=1)
    >>> lineages.part_ways()            # when training begins: from now on dropout differs from rank to rank
    >>> with lineages.shared():
    ...     order = list(sampler)       # the same on every rank

    Rank 0 keeps the notebook's own numbers: with one rank everything is as it would be without us.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._shared: dict[str, Any] | None = None
        self._is_shared_now = False
        self.batches_over = (
            0  # of the epoch that begins next: trained on before a checkpoint, by another number of ranks
        )

    def part_ways(self) -> None:
        """Training begins; once is enough. Models made before it are alike, and data are split alike."""
        if self._shared is None:
            self._shared = generator_states()
            if self._rank:
                _seed_apart(self._rank)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Draw what all ranks draw alike."""
        if self._shared is None or self._is_shared_now:  # not apart yet
            yield
            return
        own = generator_states()
        restore_generators(self._shared)
        self._is_shared_now = True
        try:
            yield
        finally:
            self._is_shared_now = False
            self._shared = generator_states()
            restore_generators(own)

    def states(self) -> dict[str, Any]:
        """Both, for `restore`; not while the shared ones are drawn from."""
        return {"shared": self._shared, "own": generator_states()}

    def restore(self, states: dict[str, Any], *, is_mine: bool = True) -> None:
        """Put back what `states` gave on this rank; or on another, from which this one goes its own way."""
        self._shared = states["shared"]
        restore_generators(states["own"])
        if self._shared is not None and not is_mine:
            _seed_apart(self._rank)


class WorkerStart:
    """A `worker_init_fn` for loader workers of a rank: other random numbers in each rank, then what the user's own does."""

    def __init__(self, rank: int, theirs: Callable[[int], object] | None) -> None:
        self.rank, self.theirs = rank, theirs

    def __call__(self, worker: int) -> None:
        if self.rank:
            _seed_apart(self.rank)
        if self.theirs is not None:
            self.theirs(worker)


def _seed_apart(rank: int) -> None:
    """Seed torch, Python and numpy (where loaded) from where they are, each rank elsewhere."""
    import torch

    seed = int(torch.randint(2**62, (1,)).item()) + rank * _APART
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)
