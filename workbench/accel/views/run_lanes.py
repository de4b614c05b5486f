"""What the ranks are doing at one moment, a row a rank: as text, and as a table that is redrawn in place."""

from __future__ import annotations

from accel import html_parts
from accel.distributed.cells.run_lanes import RunLanes
from accel.html_parts import Markup
from accel.units import percent, size, table

HEADINGS = ("", "phase", "step", "loss", "samples/s", "waiting for others", "memory")


def text(shown: RunLanes) -> str:
    """For a terminal."""
    lines = table([HEADINGS, *_rows(shown)]) if shown.lanes else []
    return "\n".join([shown.line, *(f"  {line}" for line in lines), *shown.notes])


def html(shown: RunLanes) -> Markup:
    """For a notebook, the share of waiting as a bar."""
    rows = [
        (*row[:5], html_parts.bar(lane.communication_share, width_px=90) + row[5], row[6])
        for row, lane in zip(_rows(shown), shown.lanes, strict=True)
    ]
    drawn = html_parts.table(HEADINGS, rows, numeric=(2, 3, 4, 6)) if rows else ""
    return html_parts.block(html_parts.note(shown.line), drawn, *map(html_parts.note, shown.notes))


def _rows(shown: RunLanes) -> list[tuple[str, ...]]:
    """One rank each, as `HEADINGS` has it."""
    return [
        (
            f"rank {lane.rank}", lane.phase, f"{lane.step:,}", f"{lane.loss:.4g}" if lane.step else "",
            f"{lane.samples_per_s:,.0f}", percent(lane.communication_share, 0),
            size(lane.memory_bytes) if lane.memory_bytes else "",
        )
        for lane in shown.lanes
    ]  # fmt: skip
