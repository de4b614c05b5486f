"""Who gets which samples: the same batches on all ranks, and of them each rank's part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

BatchMeans = Literal["per-rank", "global"]


@dataclass(frozen=True)
class Share:
    """A rank's part of one step: the indices of its samples, and its weight in the mean over ranks.

    The weight is 1 where all ranks have equally many; DDP takes the mean of the ranks' means, which is the mean over all samples
    only then. `is_whole`: all ranks have the same samples.
    """

    indices: Any
    weight: float = 1.0
    is_whole: bool = False


def shares_of(
    batches: Sequence[Any], *, rank: int, world_size: int, batch: BatchMeans, drop_last: bool
) -> list[Share]:
    """A rank's part of an epoch's batches; every rank gets equally many.

    >>> [share.indices for share in shares_of([[0, 1], [2, 3], [4, 5]], rank=1, world_size=2, batch="per-rank", drop_last=False)]
    [[2, 3], [0, 1]]

    "per-rank": a step takes `world_size` batches, one a rank; where the last step lacks some, it takes the first ones again, or
    is left out with `drop_last`, as torch's DistributedSampler does. "global": a step takes one batch and each rank a piece of
    it, so that a step trains on the samples that one process would have trained on; a batch of fewer than two
    samples a rank goes to all of them whole (BatchNorm cannot train on one).
    """
    if world_size == 1:
        return [Share(indices) for indices in batches]
    if batch == "global":
        return [_piece(list(indices), rank, world_size) for indices in batches]
    steps = len(batches) // world_size if drop_last else -(-len(batches) // world_size)
    return [_own(batches, step, rank, world_size) for step in range(steps)]


def steps_of(batches: int, *, world_size: int, batch: BatchMeans, drop_last: bool) -> int:
    """How many steps an epoch of so many batches has.

    >>> steps_of(5, world_size=2, batch="per-rank", drop_last=False)
    3
    """
    if batch == "global":
        return batches
    return batches // world_size if drop_last else -(-batches // world_size)


def _own(batches: Sequence[Any], step: int, rank: int, world_size: int) -> Share:
    group = [batches[(step * world_size + each) % len(batches)] for each in range(world_size)]
    sizes = [_size(each) for each in group]
    return Share(group[rank], world_size * sizes[rank] / sum(sizes) if sum(sizes) else 1.0)


def _piece(indices: list[Any], rank: int, world_size: int) -> Share:
    if len(indices) < 2 * world_size:
        return Share(indices, is_whole=True)
    edges = [len(indices) * each // world_size for each in range(world_size + 1)]
    own = indices[edges[rank] : edges[rank + 1]]
    return Share(own, world_size * len(own) / len(indices))


def _size(indices: Any) -> int:
    return len(indices) if hasattr(indices, "__len__") else 1
