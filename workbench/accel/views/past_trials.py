"""What was measured on this machine, as lines and as a table, newest first."""

from __future__ import annotations

import math

from accel.history.records import PastTrials, TrialRecord, interval
from accel.html_parts import Markup, block, note, preformatted, table
from accel.units import counted

NONE_YET = "No trial was recorded yet: %accel try measures a plan."
OFF = "No history is kept: ACCEL_HISTORY is off."
SHOWN = 40


def text(past: PastTrials) -> str:
    """For a terminal: a line a trial, newest first; or a table for a file."""
    if past.as_csv:
        return past.csv.rstrip("\n")
    width = len(str(len(past.rows)))
    lines = [
        f"{number:>{width}}  {row.time[:16].replace('T', ' ')}  {_speed_up(row):<34} {row.title}  · {_found(row)}"
        for number, row in past.numbered[:SHOWN]
    ]
    return "\n".join(
        [*filter(None, [past.cell]), *(lines or [NONE_YET if past.file else OFF]), *_small_print(past)]
    )


def html(past: PastTrials) -> Markup:
    """For a notebook."""
    if past.as_csv:
        return block(preformatted(past.csv))
    rows = [
        (number, row.time[:16].replace("T", " "), row.title, _speed_up(row), _found(row), row.described)
        for number, row in past.numbered[:SHOWN]
    ]
    shown = (
        table(["", "When", "Plan", "Measured", "Loss or quality", "Workload"], rows)
        if rows
        else note(text(past).splitlines()[0])
    )
    return block(note(past.cell) if past.cell else "", shown, *map(note, _small_print(past)))


def _small_print(past: PastTrials) -> list[str]:
    left_out = len(past.rows) - SHOWN
    more = [f"{left_out} older ones are in .to_dataframe()."] if left_out > 0 else []
    again = ["%accel history --again NUMBER measures one anew."] if past.rows else []
    machines = sorted({row.machine for row in past.rows})
    return [
        *more,
        *again,
        *machines,
        *([f"History: {past.file}"] if past.file else []),
        *([past.problem] if past.problem else []),
    ]


def _speed_up(row: TrialRecord) -> str:
    """Verdict and ratio with its interval, in one line; one or two seeds have none."""
    if math.isnan(row.ratio):
        return row.verdict
    if math.isnan(row.low):
        return f"{row.verdict}: about {row.ratio:.2f}×, too few seeds for an interval"
    return f"{row.verdict}: {interval(row.ratio, row.low, row.high)}"


def _found(row: TrialRecord) -> str:
    """What else was found: whether the loss followed, when compiling pays off, or seconds and quality side by side.

    >>> _found(row)
    'accuracy>=0.95: 3.2 s, 4.5 s without; 3 seeds; accuracy 0.953, 0.951 without'
    """
    if not row.asked:
        steps = row.break_even_steps
        return row.quality if math.isnan(steps) else f"{row.quality}; pays off after {steps:,.0f} steps"
    seconds, without = ("–" if math.isnan(s) else f"{s:.3g} s" for s in (row.seconds, row.baseline_seconds))
    seeds = counted(round(row.seeds), "seed")
    return "; ".join(filter(None, [f"{row.asked}: {seconds}, {without} without", seeds, row.quality]))
