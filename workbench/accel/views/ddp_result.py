"""A data-parallel run as text and as static HTML: a line a rank, what became of the objects, and what to look at."""

from __future__ import annotations

from accel import html_parts
from accel.distributed.cells.ddp_result import DdpResult
from accel.html_parts import Markup
from accel.machine.cpu_lists import cpu_list
from accel.units import percent, size, table
from accel.views import communication

HEADINGS = ("", "CPUs", "steps", "samples/s", "loss", "waiting for others", "memory")


def text(result: DdpResult) -> str:
    """For a terminal."""
    seen = [communication.text(result.communication)] if result.communication is not None else []
    lines = table([HEADINGS, *_rows(result)])
    return "\n".join([result.line, *(f"  {line}" for line in lines), *_below(result), *seen])


def html(result: DdpResult) -> Markup:
    """For a notebook."""
    seen = [communication.html(result.communication)] if result.communication is not None else []
    notes = map(html_parts.note, _below(result))
    shown = html_parts.table(HEADINGS, _rows(result))
    return html_parts.block(html_parts.heading(result.line), shown, *notes, *seen)


def _below(result: DdpResult) -> list[str]:
    values = filter(None, (result.values_line,))
    return [result.state_line, *result.check_lines, *values, *result.plan_lines, *result.warnings]


def _rows(result: DdpResult) -> list[tuple[str, ...]]:
    """One rank each, as `HEADINGS` has it."""
    return [
        (
            f"rank {each.lane.rank}", cpu_list(each.cpus) or "any", str(each.lane.step), f"{each.lane.samples_per_s:,.0f}",
            f"{each.lane.loss:.4g}" if each.lane.step else "",
            "" if result.distributes_itself else percent(each.lane.communication_share, 0),
            size(each.lane.memory_bytes) if each.lane.memory_bytes else "",
        )
        for each in result.ranks
    ]  # fmt: skip
