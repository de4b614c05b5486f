"""What the ranks are doing at one moment, a row a rank: as text, and as a table that is redrawn in place."""

from __future__ import annotations

from dataclasses import dataclass

from accel import html_parts
from accel.distributed.ranks.rank_page import RankLane
from accel.units import percent, size, table

HEADINGS = ("", "phase", "step", "loss", "samples/s", "waiting for others", "memory")


@dataclass(frozen=True)
class LanesView:
    """The lanes of a run under one line, and what is to be told of it.

    >>> print(LanesView("Training on 2 ranks, 3 s.", run.lanes))
    """

    line: str
    lanes: tuple[RankLane, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """(rank, phase, step, loss, samples/s, share of waiting, memory)."""
        return [
            (
                f"rank {lane.rank}", lane.phase, f"{lane.step:,}", f"{lane.loss:.4g}" if lane.step else "",
                f"{lane.samples_per_s:,.0f}", percent(lane.communication_share, 0),
                size(lane.memory_bytes) if lane.memory_bytes else "",
            )
            for lane in self.lanes
        ]  # fmt: skip

    def __str__(self) -> str:
        lines = table([HEADINGS, *self.rows]) if self.lanes else []
        return "\n".join([self.line, *(f"  {line}" for line in lines), *self.notes])

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        rows = [
            (*row[:5], html_parts.Markup(html_parts.bar(lane.communication_share, width_px=90) + row[5]), row[6])
            for row, lane in zip(self.rows, self.lanes, strict=True)
        ]  # fmt: skip
        drawn = html_parts.table(HEADINGS, rows, numeric=(2, 3, 4, 6)) if rows else ""
        notes = [html_parts.note(text) for text in self.notes]
        return {
            "text/plain": str(self),
            "text/html": str(html_parts.block(html_parts.note(self.line), drawn, *notes)),
        }
