"""A ProfileDiff for a terminal, and the sentences that its HTML says too."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from accel.profiling.phase_words import NO_MODULE, phase_words
from accel.profiling.report.section import SHOWN_ROWS
from accel.units import milliseconds

if TYPE_CHECKING:
    from accel.profiling.compared_ops import OpChange
    from accel.profiling.profile_diff import ProfileDiff, Replacement

WIDTH = 108
NAMED = 8


def diff_text(diff: ProfileDiff) -> str:
    """Step time, phases, what replaced what, the operations that changed most."""
    parts = [
        [diff_headline(diff)],
        _phases(diff),
        list(_replacements(diff)),
        list(_changes(diff)),
        list(_last(diff)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def diff_headline(diff: ProfileDiff) -> str:
    """The step before and after, with what may be said of it.

    >>> diff_headline(difference)
    '24.9 ms → 19.8 ms a step: 1.26 times as fast in these two runs'
    """
    if math.isnan(diff.ratio):
        return "No training step was seen in one of the two profiles"
    times = f"{milliseconds(diff.before_ms)} → {milliseconds(diff.after_ms)} a {diff.unit}"
    if not diff.is_told_apart:
        return f"{times}: no difference that two single runs could tell, their step times overlap"
    told = f"{diff.ratio:.3g} times as fast" if diff.ratio >= 1 else f"{1 / diff.ratio:.3g} times as slow"
    return f"{times}: {told} in these two runs"


def change_words(change: OpChange) -> str:
    """What happened to an operation."""
    words = {"appeared": "new", "vanished": "gone", "faster": "faster", "slower": "slower", "alike": "alike"}
    return words[change.change]


def dtype_words(change: OpChange) -> str:
    """ "float32 → bfloat16", where it is known and differs."""
    if not change.before_dtype or not change.after_dtype or change.before_dtype == change.after_dtype:
        return ""
    return f"{change.before_dtype} → {change.after_dtype}"


def calls_words(change: OpChange) -> str:
    """Calls a step, before and after."""
    if change.change in ("appeared", "vanished") or change.before_calls == change.after_calls:
        return f"{max(change.before_calls, change.after_calls):.3g}"
    return f"{change.before_calls:.3g} → {change.after_calls:.3g}"


def place_words(phase: str, module: str) -> str:
    """Phase and module."""
    return f"{phase_words(phase)} · {module or NO_MODULE}"


def named(changes: Sequence[OpChange]) -> str:
    """Operations with calls and time, the most expensive first.

    >>> named(replacement.vanished)
    'aten::relu ×2 (12 µs), aten::max_pool2d ×1 (11 µs)'
    """
    ordered = sorted(changes, key=lambda change: -max(change.before_ms, change.after_ms))
    told = [
        f"{c.op} ×{max(c.before_calls, c.after_calls):.3g} ({milliseconds(max(c.before_ms, c.after_ms))})"
        for c in ordered[:NAMED]
    ]
    rest = len(ordered) - len(told)
    return ", ".join(told) + (f" and {rest} more" if rest else "")


def _time(value_ms: float) -> str:
    return milliseconds(value_ms) if value_ms else "–"


def _phases(diff: ProfileDiff) -> list[str]:
    lines = [
        f"  {phase_words(p.name) + ':':<34}{_time(p.before_ms):>9} → {_time(p.after_ms)}"
        for p in diff.phases
        if max(p.before_ms, p.after_ms) >= 0.001 * max(diff.before_ms, diff.after_ms)
    ]
    return ["Phases, per step", *lines] if lines else []


def _replacements(diff: ProfileDiff) -> Iterator[str]:
    for number, one in enumerate(diff.replacements[:SHOWN_ROWS]):
        if not number:
            yield "What was replaced"
        yield f"  {place_words(one.phase, one.module)}: {milliseconds(one.before_ms)} → {milliseconds(one.after_ms)}"
        yield from _gone_and_new(one)


def _gone_and_new(one: Replacement) -> Iterator[str]:
    for word, changes in (("gone", one.vanished), ("new", one.appeared)):
        yield from wrap(f"{word}: {named(changes)}", WIDTH, initial_indent="    ", subsequent_indent="      ")


def _changes(diff: ProfileDiff) -> Iterator[str]:
    changes = [change for change in diff.changes if change.change != "alike" or dtype_words(change)]
    for number, one in enumerate(changes[:SHOWN_ROWS]):
        if not number:
            yield "Operations that changed most (self time, per step)"
        dtype = dtype_words(one)
        times = f"{_time(one.before_ms):>9} → {_time(one.after_ms):<9} {change_words(one):<7}"
        calls = f"{calls_words(one)} call{'' if calls_words(one) == '1' else 's'}"
        yield f"  {times} {one.op}  · {place_words(one.phase, one.module)}  · {calls}{f'  · {dtype}' if dtype else ''}"


def _last(diff: ProfileDiff) -> Iterator[str]:
    yield from (line for note in diff.notes for line in wrap(f"Note: {note}", WIDTH, subsequent_indent="  "))
    yield diff.machine_line
