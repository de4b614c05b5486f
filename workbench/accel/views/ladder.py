"""A ladder as text and as a table with bars: a line a plan with its verdict, and how it was found."""

from __future__ import annotations

import math

from accel.html_parts import BEST_COLOUR, OTHER_COLOUR, Markup, bar, block, heading, note, table
from accel.html_parts import text as escaped
from accel.measuring.comparison import Comparison, Interval
from accel.measuring.ladder import Ladder, speed

_SYMBOL = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?"}


def text(ladder: Ladder) -> str:
    """For a terminal: a line a plan with its small print, then what a reader must know."""
    width = max([len(row.title) for row in ladder.rows] + [8])
    lines = [ladder.baseline_line]
    for row in ladder.rows:
        lines.append(f"{symbol(row)} {row.title:<{width}}  {row.sentence}")
        lines += [f"    {line}" for line in explanations(row)]
    return "\n".join(line for line in (*lines, *ladder.last_lines) if line)


def html(ladder: Ladder) -> Markup:
    """For a notebook: bars are speed-ups, the longest that of the fastest row. A long plan may break at each `+`."""
    fastest = max([speed(row) for row in ladder.rows if not math.isnan(speed(row))] + [1.0])
    rows = [
        (
            Markup("+<wbr>").join(map(escaped, f"{symbol(row)} {row.title}".split("+"))),
            ""
            if math.isnan(speed(row))
            else bar(speed(row) / fastest, colour=BEST_COLOUR if row.verdict == "faster" else OTHER_COLOUR),
            row.sentence,
            Markup("<br>".join(map(escaped, explanations(row)))),
        )
        for row in ladder.rows
    ]
    notes = [note(line) for line in ladder.last_lines]
    top = heading(ladder.baseline_line)
    return block(top, table(["plan", "speed-up", "verdict", "how it was found"], rows), *notes)


def symbol(row: Comparison) -> str:
    """One mark for the verdict; the words next to it say the same."""
    if row.state in ("failed", "not applicable"):
        return "✗"
    return _SYMBOL[
        row.verdict if row.state == "done" or (row.state == "stopped" and row.shown) else "undecided"
    ]


def explanations(row: Comparison) -> list[str]:
    """The small print of a row: samples, quality, proofs, notes. `steady`, where it decided nothing, is in `to_dict` only."""
    lines = []
    if row.samples_per_step:
        base, own = row.samples_per_step
        lines.append(
            f"per sample: a step of {base:,} samples took {row.baseline_ms:.3g} ms, one of {own:,} {row.candidate_ms:.3g} ms"
        )
    if row.headline:
        lines.append(f"{_samples(row.headline)} as this notebook runs")
    elif row.shown:
        lines.append(f"{_samples(row.shown)} with a steady allocator on both sides")
    if row.state == "done":
        lines.append(f"{row.effect}: {row.quality}")
    lines += [
        f"{'took effect' if took else 'DID NOT TAKE EFFECT'}: {name} — {evidence}"
        for name, took, evidence in row.proofs
    ]
    return lines + list(row.notes)


def _samples(interval: Interval) -> str:
    return f"{interval.pairs} pairs of step blocks over {interval.relaunches} relaunch{'es' if interval.relaunches > 1 else ''}"
