"""The random numbers of several ranks, drawn by one process: each rank's for that rank's samples, so that steps compare."""

from __future__ import annotations

import hashlib
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from accel.distributed.data_parallel.lineages import SEED_APART, Lineages
from accel.distributed.data_parallel.shares import shares_of
from accel.hooks.attribute_patches import AttributePatches
from accel.workload.generators import generator_states, restore_generators

_KEYS = {"torch": ("torch", "cuda"), "python": ("python",), "numpy": ("numpy",)}


class RankDraws(Lineages):
    """Stands for the lineages of so many ranks in one process that takes whole batches.

    >>> draws = RankDraws(ranks=2)
    >>> draws.unlike            # what was drawn in another way than the ranks draw it; empty where nothing was
    ''

    Samples are fetched, and dropout and noise are drawn, in pieces: each rank's with that rank's generators.
    """

    stands_for_ranks = True

    def __init__(self, ranks: int) -> None:
        super().__init__(rank=0)
        self._ranks = ranks
        self._states: dict[int, dict[str, Any]] = {}  # of the ranks after the first
        self._pieces: dict[int, list[int]] = {}  # size of a batch → how many samples each rank has of it
        self._left: dict[str, Any] = {}  # states of this process after the last draw that was seen
        self._patches = AttributePatches()
        self._mode: Any = None
        self._is_own = False  # the draw is ours
        self._whole: set[int] = set()  # sizes of the batches that every rank takes whole
        self.unlike = ""
        self.lowest_bytes = 8

    def part_ways(self) -> None:
        """Training begins, or goes on after the cell has set a seed: from here on each rank draws its own numbers."""
        kinds = set(SEED_APART) if self._shared is None else set(self._joined)
        super().part_ways()
        if not kinds:
            return
        self._look()
        own = generator_states()
        for rank in range(1, self._ranks):
            self._is_own = True
            for kind in kinds:
                if kind != "numpy" or "numpy" in sys.modules:
                    SEED_APART[kind](rank)
            self._is_own = False
            states = generator_states()
            parted = {key: states[key] for kind in kinds for key in _KEYS[kind] if key in states}
            self._states[rank] = self._states.get(rank, states) | parted
            restore_generators(own)
        self._left = own
        if self._mode is None:
            self._begin()

    def _begin(self) -> None:
        """For good: this process ends with its first step."""
        from torch.utils.data._utils.fetch import _MapDatasetFetcher

        self._patches.wrap(_MapDatasetFetcher, "fetch", self._fetching)
        self._mode = _drawing_mode(self)
        self._mode.__enter__()

    @property
    def passes_by(self) -> bool:
        """Whether a draw is not the training's: of sampling, or of ours."""
        return self._is_own or self._is_shared_now

    # --- samples -----------------------------------------------------------------------------------------------------

    def _fetching(self, original: Any) -> Callable[[Any, Any], Any]:
        def fetch(fetcher: Any, indices: Any) -> Any:
            if self.passes_by or not fetcher.auto_collation:
                return original(fetcher, indices)
            shares = [
                shares_of([indices], rank=rank, world_size=self._ranks, batch="global", drop_last=False)[
                    0
                ].indices
                for rank in range(self._ranks)
            ]
            if sum(map(len, shares)) > len(
                indices
            ):  # a batch that is too small to be shared: each rank has all of it
                self._whole.add(len(indices))
                return original(fetcher, indices)
            self._pieces[len(indices)] = [len(each) for each in shares]
            before, samples = generator_states(), list[Any]()
            for rank, own in enumerate(shares):
                with self._of(rank):
                    samples += _samples(fetcher.dataset, own)
            if self.has_replaced_workers and _changed(before, self._left):
                self.unlike = self.unlike or "in the worker processes of a loader"
            return fetcher.collate_fn(samples)

        return fetch

    @contextmanager
    def _of(self, rank: int) -> Iterator[None]:
        """Draw what this rank draws."""
        self._look()
        own = generator_states()
        if rank:
            restore_generators(self._states[rank])
        self._is_own, was_own = True, self._is_own
        try:
            yield
        finally:
            self._is_own = was_own
            if rank:
                self._states[rank] = generator_states()
                restore_generators(own)
            self._left = generator_states()

    def _look(self) -> None:
        """Has this process drawn numbers since, in a way that was not seen?"""
        if self._left and not self.unlike and (kind := _changed(self._left, generator_states())):
            self.unlike = f"from the generator of {'Python' if kind == 'python' else kind}"

    def hashed(self, batch: Any) -> list[Any]:
        """`hashed_samples` of a batch of this process: each rank's part of it."""
        return hashed_samples(batch, self._pieces.get)

    def finish(self) -> list[dict[str, str]]:
        """Stop watching at the end of the step. Returns, for each rank, the `digests` of its generators at that point."""
        self._look()
        self._is_own = True
        own = generator_states()
        return [digests(own), *(digests(self._states.get(rank, own)) for rank in range(1, self._ranks))]

    # --- operations that draw ----------------------------------------------------------------------------------------

    def drawn(self, operation: Any, args: Any, kwargs: Any) -> Any:
        """What this operation gives where each rank draws for its own samples."""
        place = self._place(args)
        if place is None or kwargs.get("generator") is not None:
            self._look()
            result = operation(*args, **kwargs)
            whose = (
                "a batch with fewer than two samples per rank, which every rank therefore takes whole"
                if self._whole.intersection(next(filter(None, map(_shape, args)), ()))
                else "other things than the samples of a batch"
            )
            self.unlike = self.unlike or f"by {operation.overloadpacket} for {whose}"
            self._left = generator_states()
            return result
        dim, pieces, is_sure = place
        results, start = [], 0
        for rank, size in enumerate(pieces):
            with self._of(rank):
                own = _narrowed((args, kwargs), dim, start, size, sum(pieces))
                results.append(operation(*own[0], **own[1]))
            start += size
        if not is_sure:
            self.unlike = (
                self.unlike
                or f"by {operation.overloadpacket}, of which it is unclear whose samples they are for"
            )
        return args[0] if operation._schema.is_mutable else _joined(results, dim)

    def _place(self, args: Sequence[Any]) -> tuple[int, list[int], bool] | None:
        """The dimension along which samples lie, how many of it are each rank's, and whether that is sure."""
        shape = next(filter(None, map(_shape, args)), None)
        if not shape:
            return None
        found = [dim for dim, size in enumerate(shape) if size in self._pieces]
        if found:
            return found[0], self._pieces[shape[found[0]]], len(found) == 1 or found[0] == 0
        for size, pieces in self._pieces.items():
            if shape[0] and shape[0] % size == 0:
                return 0, [each * (shape[0] // size) for each in pieces], False
        return None


def digests(states: dict[str, Any]) -> dict[str, str]:
    """A hash of the state of each kind of generator on the CPU: equal where the same numbers were drawn from the same seed.

    >>> digests(generator_states()).keys()
    dict_keys(['python', 'numpy', 'torch'])
    """
    return {
        kind: hashlib.sha256(state.numpy().tobytes() if kind == "torch" else repr(state).encode()).hexdigest()
        for kind, state in states.items()
        if kind in ("python", "numpy", "torch")
    }


def hashed_samples(
    batch: Any, pieces: Callable[[int], Sequence[int] | None] = lambda size: [size]
) -> list[Any]:
    """For each rank, [shape, checksum] of its part of each tensor in a batch; [] for a tensor that is not made of samples.

    >>> hashed_samples({"x": torch.zeros(4, 2)}, lambda size: [2, 2])
    [[[[2, 2], 3971697493]], [[[2, 2], 3971697493]]]
    """
    try:
        tensors = list(_tensors(batch))
        parts = [pieces(each.size(0)) if each.dim() else None for each in tensors]
        ranks = max((len(each) for each in parts if each), default=0)
        return [
            [
                _part_hashed(tensor, sizes, rank) if sizes else []
                for tensor, sizes in zip(tensors, parts, strict=True)
            ]
            for rank in range(ranks)
        ]
    except Exception:
        return []  # nested, conjugate and other tensors raise: the run goes on, and this batch is not compared


def _tensors(batch: Any) -> Iterator[Any]:
    import torch

    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, (list, tuple, Mapping)):
        for each in batch.values() if isinstance(batch, Mapping) else batch:
            yield from _tensors(each)


def _part_hashed(tensor: Any, sizes: Sequence[int], rank: int) -> list[Any]:
    import torch

    part = tensor.detach().narrow(0, sum(sizes[:rank]), sizes[rank]).cpu().contiguous()
    return [list(part.shape), zlib.crc32(part.reshape(-1).view(torch.uint8).numpy())]


def _drawing_mode(draws: RankDraws) -> Any:
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Drawing(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            if func is torch.ops.aten._local_scalar_dense.default and not isinstance(args[0], torch.Tensor):
                return args[0]  # a number that torch wraps, as of `loss / 4`, comes here unwrapped
            if torch.Tag.nondeterministic_seeded in func.tags and not draws.passes_by:
                return draws.drawn(func, args, kwargs)
            result = func(*args, **kwargs)
            if isinstance(result, torch.Tensor) and result.is_floating_point():
                draws.lowest_bytes = min(draws.lowest_bytes, result.element_size())
            return result

    return Drawing()  # type: ignore[no-untyped-call]


def _samples(dataset: Any, indices: Sequence[Any]) -> Sequence[Any]:
    """As torch's loader fetches them."""
    if getattr(dataset, "__getitems__", None):
        return dataset.__getitems__(indices)  # type: ignore[no-any-return]
    return [dataset[index] for index in indices]


def _shape(argument: Any) -> list[int]:
    """Of a tensor, or a list of sizes."""
    import torch

    if isinstance(argument, torch.Tensor):
        return list(argument.shape)
    is_sizes = (
        isinstance(argument, (list, tuple)) and argument and all(isinstance(each, int) for each in argument)
    )
    return list(argument) if is_sizes else []


def _narrowed(arguments: Any, dim: int, start: int, size: int, whole: int) -> Any:
    """The same arguments for a rank's part: tensors and sizes that have the whole batch along this dimension."""
    import torch

    def part(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            has_it = value.dim() > dim and value.size(dim) == whole
            return value.narrow(dim, start, size) if has_it else value
        if isinstance(value, dict):
            return {key: part(each) for key, each in value.items()}
        if isinstance(value, (list, tuple)):
            if len(value) > dim and all(isinstance(each, int) for each in value) and value[dim] == whole:
                return [*value[:dim], size, *value[dim + 1 :]]
            return type(value)(map(part, value))
        return value

    return part(arguments)


def _joined(results: Sequence[Any], dim: int) -> Any:
    import torch

    if isinstance(results[0], torch.Tensor):
        return torch.cat(list(results), dim)
    return tuple(_joined(parts, dim) for parts in zip(*results, strict=True))


def _changed(before: dict[str, Any], after: dict[str, Any]) -> str:
    """The first kind of generator whose state is another one."""
    return next(
        (
            kind
            for kind, state in before.items()
            if kind != "current device" and not _is_same(state, after[kind])
        ),
        "",
    )


def _is_same(one: Any, other: Any) -> bool:
    import torch

    if isinstance(one, torch.Tensor):
        return bool(torch.equal(one, other))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool((one == other).all()) if hasattr(one, "all") else bool(one == other)
