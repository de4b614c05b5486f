"""A ProfileDiff as static HTML: tables, before and after side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from accel.html_parts import block, heading, note, table
from accel.profiling.phase_words import NO_MODULE, phase_words
from accel.profiling.profile_diff_text import (
    calls_words,
    change_words,
    diff_headline,
    dtype_words,
    named,
    place_words,
)
from accel.profiling.report.parts import long_table, time_cell, whole
from accel.profiling.report.section import SHOWN_ROWS
from accel.units import percent

if TYPE_CHECKING:
    from accel.profiling.profile_diff import ProfileDiff


def diff_html(diff: ProfileDiff) -> str:
    """The parts that have something to show, in the order of the text."""
    parts = (*_phases(diff), *_replacements(diff), *_changes(diff))
    return block(heading(diff_headline(diff)), *parts, *map(note, [*diff.notes, diff.machine_line]))


def _phases(diff: ProfileDiff) -> Iterator[object]:
    least_ms = 0.001 * max((max(p.before_ms, p.after_ms) for p in diff.phases), default=0.0)
    rows = [
        (phase_words(p.name), time_cell(p.before_ms), time_cell(p.after_ms))
        for p in diff.phases
        if max(p.before_ms, p.after_ms) > least_ms
    ]
    if rows:
        yield heading("Phases, per step")
        yield table(["Phase", "Before", "After"], rows, numeric=(1, 2))


def _replacements(diff: ProfileDiff) -> Iterator[object]:
    rows = [
        (place_words(one.phase, one.module), named(one.vanished), time_cell(one.before_ms), named(one.appeared),
         time_cell(one.after_ms))
        for one in diff.replacements[:SHOWN_ROWS]
    ]  # fmt: skip
    if rows:
        yield heading("What was replaced")
        yield table(["Where", "Gone", "Time", "New", "Time"], rows, numeric=(2, 4))


def _changes(diff: ProfileDiff) -> Iterator[object]:
    has_dtypes = any(map(dtype_words, diff.changes))
    headings = [
        "Operation",
        "Phase",
        "Module",
        "",
        "Before",
        "After",
        "Share",
        "Calls",
        *["Type"] * has_dtypes,
    ]
    rows = [
        (c.op, phase_words(c.phase), c.module or NO_MODULE, change_words(c), time_cell(c.before_ms), time_cell(c.after_ms),
         whole(f"{percent(c.before_share)} → {percent(c.after_share)}"), whole(calls_words(c)),
         *[whole(dtype_words(c))] * has_dtypes)
        for c in diff.changes
        if c.change != "alike" or dtype_words(c)
    ]  # fmt: skip
    if rows:
        yield heading("Operations that changed most (self time, per step)")
        yield from long_table(headings, rows, numeric=(4, 5, 6, 7))
