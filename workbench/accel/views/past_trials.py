"""What was measured on this machine, as lines and as a table, newest first."""

from __future__ import annotations

import math

from accel.history.records import INTERRUPTED, RUNNING, PastTrials, TrialRecord, interval
from accel.html_parts import Markup, block, note, preformatted
from accel.units import counted
from accel.views.one_screen import one_screen
from accel.views.profile.parts import long_table

NONE_YET = "No trial was recorded yet: %accel try measures a plan."
OFF = "No history is kept: ACCEL_HISTORY is off."
SHOWN = 40
UNFOLDED, SHORT = 12, 9  # of these on a page, and in a terminal


def text(past: PastTrials) -> str:
    """For a terminal: a line a trial, newest first; or a table for a file."""
    if past.as_csv:
        return past.csv.rstrip("\n")
    return "\n".join([*_lines(past, SHOWN), *_small_print(past)])


def short(past: PastTrials) -> str:
    """For a terminal, at most a screen: the newest."""
    if past.as_csv or len(past.rows) <= SHORT:
        return text(past)
    most = min(len(past.rows), SHOWN)
    older = f"Shown: {SHORT} of {len(past.rows)}. print(_) or --full shows {most}, .to_dataframe() all."
    return one_screen([*_lines(past, SHORT), *_small_print(past)], more=older)


def _lines(past: PastTrials, most: int) -> list[str]:
    width = len(str(len(past.rows)))
    lines = [
        f"{number:>{width}}  {row.time[:16].replace('T', ' ')}  {_speed_up(row):<34} {row.title}  · {_found(row)}"
        for number, row in past.numbered[:most]
    ]
    return [*filter(None, [past.cell]), *(lines or [NONE_YET if past.file else OFF])]


def html(past: PastTrials) -> Markup:
    """For a notebook."""
    if past.as_csv:
        return block(preformatted(past.csv))
    rows = [
        (number, row.time[:16].replace("T", " "), row.title, _speed_up(row), _found(row), row.described)
        for number, row in past.numbered[:SHOWN]
    ]
    headings = ["", "When", "Plan", "Measured", "Loss or quality", "Workload"]
    shown = long_table(headings, rows, shown=UNFOLDED) if rows else [note(text(past).splitlines()[0])]
    return block(note(past.cell) if past.cell else "", *shown, *map(note, _small_print(past)))


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
    if row.verdict in (RUNNING, INTERRUPTED):
        return row.asked
    seconds, without = ("–" if math.isnan(s) else f"{s:.3g} s" for s in (row.seconds, row.baseline_seconds))
    seeds = counted(round(row.seeds), "seed")
    return "; ".join(filter(None, [f"{row.asked}: {seconds}, {without} without", seeds, row.quality]))
