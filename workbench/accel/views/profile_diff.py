"""A ProfileDiff as text, as static HTML with before and after side by side, and as bars of what changed most."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from accel.errors import AccelError
from accel.html_parts import BLUE, OTHER_COLOUR, Markup, block, heading, note, table
from accel.html_parts import text as escaped
from accel.profiling.compared_ops import OpChange
from accel.profiling.phase_words import NO_MODULE, phase_words
from accel.profiling.profile_diff import ProfileDiff, Replacement
from accel.units import milliseconds, percent
from accel.views.figure_look import axis, look
from accel.views.profile.parts import long_table, time_cell, whole
from accel.views.profile.section import SHOWN_ROWS, WIDTH

if TYPE_CHECKING:
    import plotly.graph_objects

NAMED = 8
SHOWN_BARS = 15
BEFORE, AFTER = OTHER_COLOUR, BLUE


def text(diff: ProfileDiff) -> str:
    """Step time, phases, what replaced what, the operations that changed most."""
    parts = [
        [headline(diff)],
        _phases(diff),
        list(_replacements(diff)),
        list(_changes(diff)),
        list(_last(diff)),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def html(diff: ProfileDiff) -> Markup:
    """The headline, and the parts that have something to show, in the order of the text."""
    return block(heading(headline(diff)), *html_parts(diff))


def html_parts(diff: ProfileDiff) -> Iterator[object]:
    """What stands below the headline."""
    yield from (*_phases_html(diff), *_replacements_html(diff), *_changes_html(diff))
    yield from map(note, [*diff.notes, diff.machine_line])


def figure(diff: ProfileDiff) -> plotly.graph_objects.Figure:
    """Two bars an operation, per step; the greatest difference on top. The second is hatched, not only of another colour."""
    import plotly.graph_objects as go

    shown = [change for change in diff.changes if change.difference_ms][:SHOWN_BARS][::-1]
    if not shown:
        raise AccelError(
            "diff.figure()",
            because="no operation differs between the two profiles",
            do="Their notes say whether operations were profiled at all.",
        )
    labels = [
        escaped(f"{c.op} · {phase_words(c.phase)} · {c.module or NO_MODULE} ({c.change})") for c in shown
    ]
    bars = [
        go.Bar(
            y=labels, x=values, name=name, orientation="h",
            marker={"color": colour, "pattern": {"shape": pattern, "size": 5}}, hovertemplate="%{x:.3g} ms",
        )
        for name, values, colour, pattern in (
            ("after", [c.after_ms for c in shown], AFTER, "/"),
            ("before", [c.before_ms for c in shown], BEFORE, ""),
        )
    ]  # fmt: skip
    layout = look(
        "Self time per step, before and after", barmode="group", xaxis=axis("ms"), height=120 + 38 * len(shown),
        yaxis={"automargin": True}, legend={"traceorder": "reversed"},
    )  # fmt: skip
    return go.Figure(bars, layout=layout)


def headline(diff: ProfileDiff) -> str:
    """The step before and after, with what may be said of it.

    >>> headline(difference)
    '24.9 ms → 19.8 ms a step: 1.26 times as fast in these two runs'
    """
    if math.isnan(diff.ratio):
        return "No training step was seen in one of the two profiles"
    times = f"{milliseconds(diff.before_ms)} → {milliseconds(diff.after_ms)} a {diff.unit}"
    if not diff.is_told_apart:
        return f"{times}: no difference that two single runs could tell, their step times overlap"
    speed = f"{diff.ratio:.3g} times as fast" if diff.ratio >= 1 else f"{1 / diff.ratio:.3g} times as slow"
    return f"{times}: {speed} in these two runs"


def _change_words(change: OpChange) -> str:
    """What happened to an operation."""
    words = {"appeared": "new", "vanished": "gone", "faster": "faster", "slower": "slower", "alike": "alike"}
    return words[change.change]


def _calls_words(change: OpChange) -> str:
    """Calls a step, before and after."""
    if change.change in ("appeared", "vanished") or change.before_calls == change.after_calls:
        return f"{max(change.before_calls, change.after_calls):.3g}"
    return f"{change.before_calls:.3g} → {change.after_calls:.3g}"


def _place_words(phase: str, module: str) -> str:
    """Phase and module."""
    return f"{phase_words(phase)} · {module or NO_MODULE}"


def _named(changes: Sequence[OpChange]) -> str:
    """Operations with calls and time, the most expensive first.

    >>> _named(replacement.vanished)
    'aten::relu ×2 (12 µs), aten::max_pool2d ×1 (11 µs)'
    """
    ordered = sorted(changes, key=lambda change: -max(change.before_ms, change.after_ms))
    named = [
        f"{c.op} ×{max(c.before_calls, c.after_calls):.3g} ({milliseconds(max(c.before_ms, c.after_ms))})"
        for c in ordered[:NAMED]
    ]
    rest = len(ordered) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")


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
        yield f"  {_place_words(one.phase, one.module)}: {milliseconds(one.before_ms)} → {milliseconds(one.after_ms)}"
        yield from _gone_and_new(one)


def _gone_and_new(one: Replacement) -> Iterator[str]:
    for word, changes in (("gone", one.vanished), ("new", one.appeared)):
        yield from wrap(
            f"{word}: {_named(changes)}", WIDTH, initial_indent="    ", subsequent_indent="      "
        )


def _changes(diff: ProfileDiff) -> Iterator[str]:
    changes = [change for change in diff.changes if change.change != "alike" or change.dtypes]
    for number, one in enumerate(changes[:SHOWN_ROWS]):
        if not number:
            yield "Operations that changed most (self time, per step)"
        dtype = one.dtypes
        times = f"{_time(one.before_ms):>9} → {_time(one.after_ms):<9} {_change_words(one):<7}"
        calls = f"{_calls_words(one)} call{'' if _calls_words(one) == '1' else 's'}"
        yield f"  {times} {one.op}  · {_place_words(one.phase, one.module)}  · {calls}{f'  · {dtype}' if dtype else ''}"


def _last(diff: ProfileDiff) -> Iterator[str]:
    yield from (line for note in diff.notes for line in wrap(f"Note: {note}", WIDTH, subsequent_indent="  "))
    yield diff.machine_line


def _phases_html(diff: ProfileDiff) -> Iterator[object]:
    least_ms = 0.001 * max((max(p.before_ms, p.after_ms) for p in diff.phases), default=0.0)
    rows = [
        (phase_words(p.name), time_cell(p.before_ms), time_cell(p.after_ms))
        for p in diff.phases
        if max(p.before_ms, p.after_ms) > least_ms
    ]
    if rows:
        yield heading("Phases, per step")
        yield table(["Phase", "Before", "After"], rows, numeric=(1, 2))


def _replacements_html(diff: ProfileDiff) -> Iterator[object]:
    rows = [
        (_place_words(one.phase, one.module), _named(one.vanished), time_cell(one.before_ms), _named(one.appeared),
         time_cell(one.after_ms))
        for one in diff.replacements[:SHOWN_ROWS]
    ]  # fmt: skip
    if rows:
        yield heading("What was replaced")
        yield table(["Where", "Gone", "Time", "New", "Time"], rows, numeric=(2, 4))


def _changes_html(diff: ProfileDiff) -> Iterator[object]:
    has_dtypes = any(change.dtypes for change in diff.changes)
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
        (c.op, phase_words(c.phase), c.module or NO_MODULE, _change_words(c), time_cell(c.before_ms), time_cell(c.after_ms),
         whole(f"{percent(c.before_share)} → {percent(c.after_share)}"), whole(_calls_words(c)),
         *[whole(c.dtypes)] * has_dtypes)
        for c in diff.changes
        if c.change != "alike" or c.dtypes
    ]  # fmt: skip
    if rows:
        yield heading("Operations that changed most (self time, per step)")
        yield from long_table(headings, rows, numeric=(4, 5, 6, 7))
