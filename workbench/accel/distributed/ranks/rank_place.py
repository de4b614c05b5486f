"""Where a rank stands among the others: its number in the run, and on its machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class RankPlace:
    """Rank and world size, the same on its machine, and the address of rank 0.

    >>> RankPlace(5, 8, 1, 4, "node1")          # the second of four on its machine
    >>> RankPlace.of_one_machine(1, 2).is_alone
    True
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    first_host: str = "127.0.0.1"

    @classmethod
    def of_one_machine(cls, rank: int, world_size: int) -> RankPlace:
        """All ranks are on this machine."""
        return cls(rank, world_size, rank, world_size)

    @property
    def is_alone(self) -> bool:
        """Whether all ranks are on its machine: then nobody else is to hear of them."""
        return self.local_world_size == self.world_size
