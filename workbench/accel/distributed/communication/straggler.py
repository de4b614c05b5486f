"""The rank that the others wait for: named while a run goes on and when it is over, by one rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel.distributed.ranks.rank_page import RankLane

_FEWEST_STEPS = 20  # the first ones of a few take long for reasons of their own
_SLOWER = 1.2  # a rank that spends so much more of a step on its own work holds the others up


@dataclass(frozen=True)
class Straggler:
    """A rank whose own work of a step takes `own_ms`; that of the slowest of the others, `others_ms`."""

    rank: int
    own_ms: float
    others_ms: float

    def __str__(self) -> str:
        return (
            f"Rank {self.rank} holds the others up: {self.own_ms:.1f} ms of its own work a step, the others at most "
            f"{self.others_ms:.1f} ms."
        )


def straggler(lanes: Sequence[RankLane]) -> Straggler | None:
    """The rank that holds the others up, once its lanes can tell; None where none does.

    >>> print(straggler(run.lanes) or "All ranks take as long.")
    """
    own = {lane.rank: lane.own_ms for lane in lanes if lane.step >= _FEWEST_STEPS}
    if len(own) < 2:
        return None
    slowest = max(own, key=lambda rank: own[rank])
    others_ms = max(ms for rank, ms in own.items() if rank != slowest)
    return Straggler(slowest, own[slowest], others_ms) if own[slowest] > _SLOWER * others_ms else None
