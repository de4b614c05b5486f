"""RanksReport: the traces of several ranks side by side: who holds the others up, by how much, and in which phase."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel.profiling.phase_words import phase_words
from accel.shown import Shown
from accel.traces.aligned_calls import AlignedCall
from accel.traces.trace_profile import TraceProfile
from accel.units import milliseconds, percent

if TYPE_CHECKING:
    import pandas


ON_GPU = "kernels on the GPU"


@dataclass(frozen=True)
class RankRow:
    """One rank; times in ms per step. `own_ms` is the step without the time in which the rank only waited for others.

    `overlap_share` is the part of communication that overlapped with other work; `late_ms` is how much later than the first rank
    this one comes to a collective (None where none could be matched).
    """

    rank: int
    host: str
    steps: int
    step_ms: float
    own_ms: float
    communication_ms: float
    overlap_share: float
    exposed_ms: float
    late_ms: float | None


@dataclass(frozen=True)
class SlowestRank:
    """A rank whose own work takes longer than the others': by `by_ms` a step, `share` of it, most of it in `phase`."""

    rank: int
    by_ms: float
    share: float
    phase: str
    phase_ms: float

    def __str__(self) -> str:
        place = ON_GPU if self.phase == ON_GPU else phase_words(self.phase)
        return (
            f"Rank {self.rank} holds the others up: its own work takes {milliseconds(self.by_ms)} more a step "
            f"({percent(self.share)} of the step), {milliseconds(self.phase_ms)} of it in: {place}"
        )


@dataclass(frozen=True)
class RanksReport(Shown):
    """One row a rank, and the straggler if one stands out.

    >>> ranks = accel.open_trace("traces/")
    >>> print(ranks)
    >>> print(ranks.profiles[0])        # the full report on one rank, with what to do about it
    """

    rows: tuple[RankRow, ...]
    straggler: SlowestRank | None
    calls: tuple[AlignedCall, ...]
    missing: tuple[int, ...]
    world_size: int | None
    notes: tuple[str, ...]
    profiles: tuple[TraceProfile, ...]
    unrelated: str = ""  # why these are not the ranks of one run, as far as can be seen
    damaged: tuple[int, ...] = ()  # ranks whose files have lost events

    @property
    def headline(self) -> str:
        """How many ranks, and how long their steps take."""
        of = f" of {self.world_size}" if self.world_size else ""
        many = f"{len(self.rows)} traces" if self.unrelated else f"{len(self.rows)}{of} ranks"
        fastest, slowest = min(r.step_ms for r in self.rows), max(r.step_ms for r in self.rows)
        return f"{many}: {milliseconds(fastest)} to {milliseconds(slowest)} a step"

    @property
    def verdict(self) -> str:
        """Who holds the others up, that no rank stands out, or why these traces cannot tell."""
        if self.unrelated:
            return f"{self.unrelated}: they stand side by side here, and no straggler is looked for"
        if self.damaged:
            of = (
                f"rank {self.damaged[0]} has" if len(self.damaged) == 1 else f"{len(self.damaged)} ranks have"
            )
            return (
                f"The file of {of} lost events: own work cannot be compared, and no straggler is looked for"
            )
        return str(
            self.straggler
            or "No rank stands out: the differences in own work are within the steps' own spread"
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values; each rank's report under "profiles"."""
        return {
            "rows": [asdict(row) for row in self.rows],
            "straggler": asdict(self.straggler) if self.straggler else None,
            "calls": [asdict(call) for call in self.calls],
            "missing": list(self.missing),
            "world_size": self.world_size,
            "unrelated": self.unrelated,
            "damaged": list(self.damaged),
            "notes": list(self.notes),
            "profiles": [profile.to_dict() for profile in self.profiles],
        }

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a rank."""
        import pandas

        return pandas.DataFrame(
            [asdict(row) for row in self.rows], columns=list(RankRow.__dataclass_fields__)
        )
