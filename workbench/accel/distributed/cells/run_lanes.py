"""What the ranks of a run are doing at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from accel.distributed.ranks.rank_page import RankLane
from accel.shown import Shown


@dataclass(frozen=True)
class RunLanes(Shown):
    """The lanes of a run under one line, and notes below.

    >>> print(RunLanes("Training on 2 ranks, 3 s.", run.lanes))
    """

    line: str
    lanes: tuple[RankLane, ...] = ()
    notes: tuple[str, ...] = ()
