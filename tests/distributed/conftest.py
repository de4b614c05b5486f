"""Ranks for the tests of this folder: started once, and used warm by all of them, as a notebook uses them for its cells."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from accel.distributed.ranks.rank_pool import RankPool


class Pools(dict[int, RankPool]):
    """Ranks by their number, started when first asked for: two have one thread each, as torchrun starts them."""

    def __missing__(self, ranks: int) -> RankPool:
        self[ranks] = RankPool(ranks, threads=1 if ranks == 2 <= (os.cpu_count() or 1) else None)
        return self[ranks]


@pytest.fixture(scope="package")
def pools() -> Iterator[Pools]:
    """One rank, two, three."""
    made = Pools()
    yield made
    for ranks in made.values():
        ranks.close()


@pytest.fixture(scope="package")
def pool(pools: Pools) -> RankPool:
    """Two ranks."""
    return pools[2]
