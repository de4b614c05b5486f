"""Ranks for the tests of a file: started once, and used warm by all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from accel.distributed.rank_pool import RankPool


@pytest.fixture(scope="module")
def pool() -> Iterator[RankPool]:
    """Two ranks with one thread each."""
    ranks = RankPool(2)
    yield ranks
    ranks.close()
