"""What a plan did on the ranks: each entry with what was read back, from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from accel.units import counted


@dataclass(frozen=True)
class PlanEffect:
    """One entry of a plan: what was read back on each rank, and on which ranks it took effect.

    >>> print(PlanEffect("autocast", ("bfloat16 in the layers", "bfloat16 in the layers"), (0, 1)))
    autocast: bfloat16 in the layers, on 2 ranks
    """

    name: str
    evidence: tuple[str, ...]
    took_effect_on: tuple[int, ...]

    @property
    def took_effect(self) -> bool:
        """Whether it did on every rank."""
        return len(self.took_effect_on) == len(self.evidence)

    @property
    def warning(self) -> str:
        """What to know where it did not; else empty."""
        if self.took_effect:
            return ""
        without = [rank for rank in range(len(self.evidence)) if rank not in self.took_effect_on]
        where = "" if not self.took_effect_on else f" on rank {', '.join(map(str, without))}"
        return f"{self.name} took no effect{where}: {self.evidence[without[0]]}."

    def __str__(self) -> str:
        ranks = f"on {counted(len(self.evidence), 'rank')}"
        others = len(set(self.evidence)) > 1
        return f"{self.name}: {self.evidence[0]}{' (rank 0)' if others else ''}, {ranks}"


def effects_of(proofs: Sequence[Sequence[tuple[str, bool, str]]]) -> tuple[PlanEffect, ...]:
    """The effects of a plan from the proofs that each rank read.

    >>> effects_of([[("autocast", True, "bfloat16")], [("autocast", True, "bfloat16")]])
    """
    return tuple(
        PlanEffect(
            name=of_ranks[0][0],
            evidence=tuple(evidence for _, _, evidence in of_ranks),
            took_effect_on=tuple(rank for rank, (_, took_effect, _) in enumerate(of_ranks) if took_effect),
        )
        for of_ranks in zip(*proofs, strict=True)
    )
