"""A ladder as text and as rows on one axis: what to do, a line a plan with its verdict, and how it was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from accel.html_parts import Markup, block, breaking, details, heading, note
from accel.measuring.comparison import Comparison, Interval
from accel.measuring.ladder import UNCHANGED, Ladder
from accel.measuring.summary import UNDER_WAY
from accel.measuring.took import Took
from accel.views.one_screen import COLUMNS, one_screen
from accel.views.speed_rows import SpeedRow, in_brief, speed_rows

_SYMBOL = {"faster": "▲", "slower": "▼", "no difference": "=", "undecided": "?"}
_LOSS_MARKS = {"same": "✓ ", "follows": "✓ ", "drifts": "⚠ "}


def text(ladder: Ladder) -> str:
    """For a terminal, all of it: a line a plan with its small print, then what a reader must know."""
    width = max([len(row.title) for row in ladder.rows] + [8])
    lines = [ladder.summary, ladder.baseline_line]
    for row in ladder.rows:
        lines.append(f"{symbol(row)} {row.title:<{width}}  {row.sentence}")
        lines += [f"    {line}" for line in explanations(row)]
    return "\n".join(line for line in (*lines, *ladder.last_lines) if line)


def short(ladder: Ladder) -> str:
    """For a terminal, at most a screen: what to do, and a line a plan."""
    rows = rows_in_short([(f"{symbol(row)} {row.title}", in_short(row)) for row in ladder.rows])
    took = str(ladder.took) if ladder.took is not None else ""
    known = (ladder.machine_line, took, ladder.unchanged_line, *ladder.notes)
    return one_screen([ladder.summary, ladder.baseline_line, *rows, *known])


def html(ladder: Ladder) -> Markup:
    """For a notebook: a bar a plan on one axis; how each was found is folded."""
    top = [heading(breaking(ladder.summary))] if ladder.summary else []
    drawn = speed_rows([speed_row(row) for row in ladder.rows])
    return block(*top, note(ladder.baseline_line), drawn, *small_print(ladder, ladder.last_lines))


def speed_row(row: Comparison, *, answer: str = "") -> SpeedRow:
    """A comparison as a row of the drawing, with another answer where one is given."""
    shown, says = row.shown, answer or phrase(row)
    found = explanations(row) if says == row.sentence else [row.sentence, *explanations(row)]
    return SpeedRow(
        row.title, says, mark="" if row.state in UNDER_WAY else symbol(row),
        verdict=row.verdict if row.state == "done" else "",
        span=(shown.carried, shown.low, shown.high) if shown else None, found=found,
    )  # fmt: skip


def phrase(row: Comparison) -> str:
    """The verdict, the loss, and what took no effect, in a few words.

    >>> phrase(ladder["channels_last"])
    '1.2 to 1.4× faster · ✓ loss follows'
    """
    if row.state != "done" or row.shown is None:
        return in_brief(row.phrase)
    loss = f"{_LOSS_MARKS.get(row.quality.following, '')}{row.quality.words}"
    without = [f"✗ NO EFFECT: {', '.join(row.without_effect)}"] if row.without_effect else []
    return " · ".join([row.phrase, loss, *without])


class Measured(Protocol):
    """A ladder, a tuning, a time to quality."""

    @property
    def took(self) -> Took | None: ...
    @property
    def unchanged_line(self) -> str: ...
    @property
    def machine_line(self) -> str: ...


def small_print(result: Measured, lines: Sequence[str]) -> Iterator[Markup]:
    """What stands below the rows, folded; what became of the user's own objects stands open, unless all is well."""
    if result.unchanged_line not in ("", UNCHANGED):
        yield note(result.unchanged_line)
    title = [f"Took {result.took.seconds:.0f} s"] if result.took is not None else []
    title += ["nothing of yours changed"] if result.unchanged_line == UNCHANGED else []
    yield details(" · ".join([*title, result.machine_line]), *map(note, lines))


def rows_in_short(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Plans with their answers: next to each other where all of them fit, else below each other; long ones are cut."""
    width = max([len(title) for title, _ in rows] + [8])
    if all(width + 4 + len(answer) <= COLUMNS for _, answer in rows):
        return [f"  {title:<{width}}  {answer}" for title, answer in rows]
    return [_cut(line) for title, answer in rows for line in (f"  {title}", f"      {answer}")]


def _cut(line: str) -> str:
    return line if len(line) <= COLUMNS else f"{line[: COLUMNS - 1]}…"


def in_short(row: Comparison) -> str:
    """The verdict with the loss, and whether the plan took effect."""
    if row.state != "done" or row.shown is None:
        return row.sentence
    without = f"; NO EFFECT: {', '.join(row.without_effect)}" if row.without_effect else ""
    return f"{row.sentence}; {row.quality.words}{without}"


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
