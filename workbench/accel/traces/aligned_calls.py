"""The same collective on all ranks: their clocks put right by it, who came last, and how long the others waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.profiling.kineto_columns import Ints
    from accel.traces.rank_facts import RankFacts


@dataclass(frozen=True)
class AlignedCall:
    """A collective by name, over its `calls`; `wait_ms` is how long the first to come waited for the last, on average.

    `last_rank` came last most often, in `last_share` of the calls.
    """

    name: str
    calls: int
    wait_ms: float
    last_rank: int
    last_share: float


@dataclass(frozen=True)
class Alignment:
    """Clock offsets in ms against the first rank; `late_ms` is how much later than the first to come each rank is, on average."""

    offsets_ms: dict[int, float]
    late_ms: dict[int, float]
    calls: tuple[AlignedCall, ...]
    differing: tuple[str, ...]  # names that not all ranks have equally often


def align(ranks: Sequence[RankFacts]) -> Alignment:
    """Match the n-th call of a name on each rank; a collective ends at the same moment everywhere, so ends tell the clocks apart.

    >>> align(ranks).late_ms
    {0: 0.02, 1: 3.1}
    """
    import numpy as np

    names = sorted({name for rank in ranks for name in rank.calls})
    counts = {
        name: {len(rank.calls[name][0]) if name in rank.calls else 0 for rank in ranks} for name in names
    }
    shared = [name for name in names if len(counts[name]) == 1]
    differing = tuple(name for name in names if len(counts[name]) > 1)
    if not shared or len(ranks) < 2:
        return Alignment({}, {}, (), differing)
    ends = np.array([np.concatenate([rank.calls[name][1] for name in shared]) for rank in ranks])
    offsets = np.median(ends - ends[0], axis=1).astype(np.int64)
    begins = {name: np.array([rank.calls[name][0] for rank in ranks]) - offsets[:, None] for name in shared}
    late = np.mean(np.concatenate([_late(each) for each in begins.values()], axis=1), axis=1)
    numbers = [rank.rank for rank in ranks]
    calls = [_call(name, each, numbers) for name, each in begins.items()]
    return Alignment(
        offsets_ms=dict(zip(numbers, (offsets / 1e6).tolist(), strict=True)),
        late_ms=dict(zip(numbers, (late / 1e6).tolist(), strict=True)),
        calls=tuple(sorted(calls, key=lambda call: -call.wait_ms * call.calls)),
        differing=differing,
    )


def _late(begins: Ints) -> Ints:
    late: Ints = begins - begins.min(axis=0)
    return late


def _call(name: str, begins: Ints, ranks: list[int]) -> AlignedCall:
    import numpy as np

    last = np.bincount(begins.argmax(axis=0), minlength=len(ranks))
    return AlignedCall(
        name=name, calls=begins.shape[1], wait_ms=float(_late(begins).max(axis=0).mean()) / 1e6,
        last_rank=ranks[int(last.argmax())], last_share=float(last.max() / begins.shape[1]),
    )  # fmt: skip
