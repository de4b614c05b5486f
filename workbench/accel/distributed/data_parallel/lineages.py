"""Random numbers of a rank: those that all draw alike, for the order of samples, and its own, for dropout and augmentation."""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from accel.hooks.attribute_patches import AttributePatches
from accel.workload.generators import generator_states, restore_generators

_APART = 1_000_003  # between the seeds of two ranks: further than any number of loader workers


class Lineages:
    """All ranks begin with the notebook's generators. Sampling goes on from them, alike everywhere, without a message.

    >>> lineages = Lineages(rank=1)
    >>> lineages.part_ways()            # when training begins: from now on dropout differs from rank to rank
    >>> with lineages.shared():
    ...     order = list(sampler)       # the same on every rank

    Rank 0 keeps the notebook's own numbers: with one rank everything is as it would be without us.
    """

    stands_for_ranks = False  # one process that draws what several ranks would
    has_replaced_workers = False  # and fetches itself what workers of loaders would have fetched

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._shared: dict[str, Any] | None = None
        self._joined: set[str] = set()  # kinds that the cell has seeded since: alike until training goes on
        self._is_shared_now = False
        # of the epoch that begins next: trained on before a checkpoint, by another number of ranks
        self.batches_over = 0

    def part_ways(self) -> None:
        """Training begins; once is enough. Models made before it are alike, and data are split alike."""
        if self._shared is None:
            self._shared = generator_states()
            if self._rank:
                _seed_apart(self._rank)
            return
        while self._joined:
            kind, states = self._joined.pop(), generator_states()
            of_kind = ("torch", "cuda") if kind == "torch" else (kind,)
            self._shared |= {each: states[each] for each in of_kind if each in states}
            if self._rank:
                SEED_APART[kind](self._rank)

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Draw what all ranks draw alike."""
        if self._shared is None or self._is_shared_now:  # not apart yet
            yield
            return
        self.part_ways()
        own = generator_states()
        restore_generators(self._shared)
        self._is_shared_now = True
        try:
            yield
        finally:
            self._is_shared_now = False
            self._shared = generator_states()
            restore_generators(own)

    def begin_alike(self, patches: AttributePatches) -> None:
        """Lazy layers draw their first numbers when they are first called: the same on every rank."""
        from torch.nn.modules.lazy import LazyModuleMixin

        kinds: list[type[Any]] = [LazyModuleMixin]
        for kind in kinds:
            kinds += [each for each in kind.__subclasses__() if each not in kinds]
            if "initialize_parameters" in vars(kind):
                patches.wrap(kind, "initialize_parameters", self._alike)

    def _alike(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.shared():
                return original(*args, **kwargs)

        return call

    def states(self) -> dict[str, Any]:
        """Both, for `restore`; not while the shared ones are drawn from."""
        if self._joined:
            self.part_ways()
        return {"shared": self._shared, "own": generator_states()}

    def restore(self, states: dict[str, Any], *, is_mine: bool = True) -> None:
        """Put back what `states` gave on this rank; or on another, from which this one goes its own way."""
        self._shared = states["shared"]
        self._joined.clear()
        restore_generators(states["own"])
        if self._shared is not None and not is_mine:
            _seed_apart(self._rank)

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """What is drawn alike while entered is drawn again afterwards; a rank's own numbers are the caller's to put back."""
        shared, joined = dict(self._shared) if self._shared is not None else None, set(self._joined)
        try:
            yield
        finally:
            self._shared, self._joined = shared, joined

    @contextmanager
    def seeded_alike(self) -> Iterator[None]:
        """While entered, a seed that the cell sets makes all ranks alike again, until training goes on."""
        import torch

        owners: list[tuple[Any, str, str]] = [(torch, "manual_seed", "torch"), (random, "seed", "python")]
        if "numpy" in sys.modules:
            owners.append((sys.modules["numpy"].random, "seed", "numpy"))
        patches = AttributePatches()
        for owner, name, kind in owners:
            patches.wrap(owner, name, functools.partial(self._seeding, kind))
        try:
            yield
        finally:
            patches.take_back()

    def _seeding(self, kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def seed(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            if self._shared is not None and not self._is_shared_now:
                self._joined.add(kind)
            return result

        return seed


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
    for kind, seed in SEED_APART.items():
        if kind != "numpy" or "numpy" in sys.modules:
            seed(rank)


def _torch_apart(rank: int) -> None:
    import torch

    _torch_seed()(int(torch.randint(2**62, (1,)).item()) + rank * _APART)


def _torch_seed() -> Any:
    import torch.random

    return torch.random.manual_seed  # the one that `seeded_alike` leaves alone


def _numpy_apart(rank: int) -> None:
    generator = sys.modules["numpy"].random
    state = generator.RandomState(generator.randint(2**31) + rank * 7919).get_state()
    generator.set_state(state)


def _python_apart(rank: int) -> None:
    random.setstate(random.Random(random.getrandbits(62) + rank * _APART).getstate())


SEED_APART: dict[str, Callable[[int], None]] = {
    "torch": _torch_apart, "python": _python_apart, "numpy": _numpy_apart,
}  # fmt: skip
