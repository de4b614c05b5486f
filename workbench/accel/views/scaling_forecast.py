"""What more machines would bring: a row each, with the interval, and what was assumed."""

from __future__ import annotations

from accel.distributed.scaling.forecast import ForecastRow, ScalingForecast
from accel.html_parts import BEST_COLOUR, Markup, bar, block, details, heading, note
from accel.html_parts import table as html_table
from accel.units import milliseconds, percent, table

HEADINGS = (
    "machines",
    "ranks",
    "speed-up",
    "efficiency",
    "a step",
    "waiting for the exchange",
    "for slower ranks",
)


def text(found: ScalingForecast) -> str:
    """For a terminal."""
    return "\n".join(
        [
            *filter(None, [found.note]),
            found.line,
            *table([HEADINGS, *map(_cells, found.rows)]),
            *found.assumptions,
        ]
    )


def html(found: ScalingForecast) -> Markup:
    """For a notebook: efficiency as bars, assumptions folded."""
    rows = [
        (*_cells(row)[:3], bar(row.efficiency, colour=BEST_COLOUR), *_cells(row)[3:]) for row in found.rows
    ]
    headings = [*HEADINGS[:3], "", *HEADINGS[3:]]
    return block(
        *map(note, filter(None, [found.note])),
        heading(found.line),
        html_table(headings, rows),
        details("What was assumed", *map(note, found.assumptions)),
    )


def _cells(row: ForecastRow) -> tuple[str, ...]:
    return (
        f"{row.machines:,}", f"{row.ranks:,}", f"{_times(row.speed_up)}× [{_times(row.low)}, {_times(row.high)}]",
        percent(row.efficiency, 0), milliseconds(row.step_ms), milliseconds(row.exposed_ms), milliseconds(row.lost_ms),
    )  # fmt: skip


def _times(speed_up: float) -> str:
    return f"{speed_up:,.0f}" if speed_up >= 100 else f"{speed_up:.3g}"
