"""A caller that waits for ranks to start is called back while they do, so that a page does not fall silent."""

from __future__ import annotations

import time

import pytest

from accel.distributed.ranks.rank_pool import RankPool


@pytest.mark.fresh_interpreters
def test_looks_come_while_ranks_start_and_hardly_where_they_are_warm():
    pool, looks = RankPool(1), list[float]()
    try:
        pool.warm_up(lambda: looks.append(time.monotonic()))
        assert len(looks) > 3  # importing torch takes seconds
        before = len(looks)
        pool.warm_up(lambda: looks.append(time.monotonic()))
        assert len(looks) - before < before  # warm ranks answer at once
    finally:
        pool.close()
