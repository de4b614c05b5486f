"""RanksReport: the traces of several ranks beside each other: who holds the others up, by how much, and in which phase."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel.html_parts import block, heading, note, table
from accel.profiling.phase_words import phase_words
from accel.profiling.profile_html import profile_html
from accel.profiling.report.parts import details, time_cell, whole
from accel.traces.aligned_calls import AlignedCall
from accel.traces.trace_profile import TraceProfile
from accel.units import milliseconds, percent

if TYPE_CHECKING:
    import pandas

    from accel.profiling.finding import Finding

SHOWN_CALLS = 6
ON_GPU = "kernels on the GPU"
FOUND = "What to do about it: each rank's report has the findings in full"


@dataclass(frozen=True)
class RankRow:
    """One rank; times in ms per step. `own_ms` is the step without the time in which the rank only waited for others.

    `overlap_share` is the part of communication that ran beside other work; `late_ms` is how much later than the first rank this
    one comes to a collective (None where none could be matched).
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
class Straggler:
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
class RanksReport:
    """One row a rank, and the straggler if one stands out.

    >>> ranks = accel.open_trace("traces/")
    >>> print(ranks)
    >>> print(ranks.profiles[0])        # the full report on one rank, with what to do about it
    """

    rows: tuple[RankRow, ...]
    straggler: Straggler | None
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

    def __str__(self) -> str:
        lines = [self.headline, self.verdict, "", _line(HEADINGS)]
        lines += [_line(_cells(row)) for row in self.rows]
        if self.calls:
            lines += ["", "Collectives, by how long the first rank waits for the last"]
            lines += [f"  {_call_words(call)}" for call in self.calls[:SHOWN_CALLS]]
        if found := self._found():
            lines += ["", FOUND]
            lines += [f"  {said}" for said in found]
        return "\n".join(
            [*lines, "", *(f"Note: {said}" for said in self.notes), *map(_source, self.profiles)]
        )

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        parts: list[object] = [heading(self.headline), note(self.verdict)]
        parts.append(table(HEADINGS, map(_cells, self.rows), numeric=range(2, len(HEADINGS))))
        if self.calls:
            shown = [
                (c.name, c.calls, time_cell(c.wait_ms), c.last_rank, percent(c.last_share))
                for c in self.calls
            ]
            parts += [heading("Collectives"), table(CALLS, shown[:SHOWN_CALLS], numeric=range(1, 5))]
        if found := self._found():
            parts += [heading(FOUND), *map(note, found)]
        parts += map(note, [*self.notes, *map(_source, self.profiles)])
        parts += [
            details(f"Rank {r.rank}", profile_html(p)) for r, p in zip(self.rows, self.profiles, strict=True)
        ]
        return {"text/plain": str(self), "text/html": block(*parts)}

    def _found(self) -> list[str]:
        """Each kind of finding once, by the rank that it costs most, with how many ranks have it."""
        worst: dict[str, tuple[int, Finding]] = {}
        count: Counter[str] = Counter()
        for row, profile in zip(self.rows, self.profiles, strict=True):
            for finding in profile.findings:
                count[finding.kind] += 1
                if finding.kind not in worst or finding.share > worst[finding.kind][1].share:
                    worst[finding.kind] = row.rank, finding
        found = sorted(worst.values(), key=lambda each: -each[1].share)
        of = len(self.rows)
        return [f"{one.title} (rank {rank}; found on {count[one.kind]} of {of})" for rank, one in found]

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


HEADINGS = [
    "Rank",
    "Host",
    "Steps",
    "A step",
    "Own work",
    "Communication",
    "of it hidden",
    "Only waiting",
    "Late by",
]
CALLS = ["Collective", "Calls", "First waits for last", "Mostly last: rank", "in"]


def _cells(row: RankRow) -> list[str]:
    talks = row.communication_ms > 0
    return [
        str(row.rank), row.host, str(row.steps), whole(milliseconds(row.step_ms)), whole(milliseconds(row.own_ms)),
        time_cell(row.communication_ms), whole(percent(row.overlap_share)) if talks else "–", time_cell(row.exposed_ms),
        "–" if row.late_ms is None else whole(milliseconds(row.late_ms)),
    ]  # fmt: skip


def _line(cells: list[str]) -> str:
    widths = (6, 12, 7, 10, 10, 15, 14, 14, 10)
    return (
        "  "
        + "".join(f"{cell[: width - 1]:<{width}}" for cell, width in zip(cells, widths, strict=True)).rstrip()
    )


def _call_words(call: AlignedCall) -> str:
    return (
        f"{milliseconds(call.wait_ms):>9}  {call.name[:60]}  · {call.calls} calls, rank {call.last_rank} last in "
        f"{percent(call.last_share)} of them"
    )


def _source(profile: TraceProfile) -> str:
    return str(profile.source)
