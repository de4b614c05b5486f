"""Ranks for the tests of this folder: started once, and used warm by all of them, as a notebook uses them for its cells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from accel.distributed.ranks.rank_pool import RankPool


@pytest.fixture(scope="package")
def pool() -> Iterator[RankPool]:
    """Two ranks with one thread each."""
    ranks = RankPool(2)
    yield ranks
    ranks.close()
