"""A Profile as static HTML: readable in a saved notebook, without a kernel, in an untrusted one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from accel.html_parts import (
    OTHER_COLOUR,
    PHASE_COLOURS,
    Markup,
    bar,
    block,
    heading,
    note,
    stacked_bar,
    table,
    text,
)
from accel.profiling.profile_text import (
    NO_MODULE,
    SHOWN_OPS,
    milliseconds,
    op_base,
    percent,
    phase_words,
    phases_title,
    step_line,
)

if TYPE_CHECKING:
    from accel.profiling.op_table import OpRow
    from accel.profiling.profile import Profile
    from accel.profiling.step_timing import PhaseShare

SHOWN_IN_DETAILS = 200


def profile_html(profile: Profile) -> str:
    """Step time, phase bar, phases, operations by phase, modules, notes."""
    parts: list[object] = [heading(step_line(profile))]
    if profile.phases:
        parts += [
            heading(phases_title(profile)),
            stacked_bar([(p.name, p.share) for p in profile.phases]),
            _phases(profile.phases),
        ]
    if profile.rows:
        parts += [
            heading(f"Most expensive operations (self time, {op_base(profile)})"),
            *_operations(profile.by_phase),
        ]
        parts += [heading("By module"), *_modules(profile.rows)]
    return block(*parts, *map(note, profile.notes), note(profile.machine_line))


def details(summary: str, *parts: object) -> Markup:
    """A part that is folded away until it is clicked."""
    inside = "".join(text(part) for part in parts)
    return Markup(f'<details><summary style="cursor:pointer">{text(summary)}</summary>{inside}</details>')


def _whole(words: str) -> str:
    """A number and its unit are not to be torn apart at the end of a line."""
    return words.replace(" ", "\N{NO-BREAK SPACE}")


def _time(value_ms: float) -> str:
    return _whole(milliseconds(value_ms)) if value_ms else "–"


def _phases(phases: Sequence[PhaseShare]) -> Markup:
    rows = [
        (phase_words(p.name), _whole(percent(p.share)), _time(p.ms), _coloured(p.share, p.name))
        for p in phases
        if p.share >= 0.001
    ]
    return table(["Phase", "Share", "Time", ""], rows, numeric=(1, 2))


def _coloured(share: float, phase: str) -> Markup:
    return bar(share, colour=PHASE_COLOURS.get(phase, OTHER_COLOUR))


def _operations(rows: Sequence[OpRow]) -> list[Markup]:
    shown, rest = rows[:SHOWN_OPS], rows[SHOWN_OPS:SHOWN_IN_DETAILS]
    return [_op_table(shown)] + ([details(_how_many(rest, rows), _op_table(rest))] if rest else [])


def _op_table(rows: Iterable[OpRow]) -> Markup:
    rows = list(rows)
    on_device = any(row.device_ms for row in rows)
    cells = [
        (row.op, phase_words(row.phase), _time(row.self_ms))
        + ((_time(row.device_ms),) if on_device else ())
        + (
            _whole(percent(row.share)),
            f"{row.calls:.3g}" if row.calls else "–",
            _coloured(row.share, row.phase),
        )
        for row in rows
    ]
    headings = [
        "Operation",
        "Phase",
        "Self time",
        *(["On the GPU"] if on_device else []),
        "Share",
        "Calls",
        "",
    ]
    return table(headings, cells, numeric=range(2, len(headings) - 1))


def _modules(rows: Sequence[OpRow]) -> list[Markup]:
    """One line a module: forward, backward, everything else."""
    times: dict[str, list[float]] = {}
    shares: dict[str, float] = {}
    for row in rows:
        column = {"forward": 0, "backward": 1}.get(row.phase, 2)
        times.setdefault(row.module, [0.0, 0.0, 0.0])[column] += row.self_ms
        shares[row.module] = shares.get(row.module, 0.0) + row.share
    lines = [
        (name or NO_MODULE, *map(_time, times[name]), _whole(percent(shares[name])), bar(shares[name]))
        for name in sorted(times, key=lambda name: -shares[name])
    ]
    headings = ["Module", "Forward", "Backward", "Elsewhere", "Share", ""]
    shown, rest = lines[:SHOWN_OPS], lines[SHOWN_OPS:SHOWN_IN_DETAILS]
    parts = [table(headings, shown, numeric=range(1, 5))]
    return parts + (
        [details(_how_many(rest, lines), table(headings, rest, numeric=range(1, 5)))] if rest else []
    )


def _how_many(rest: Sequence[object], all_of_them: Sequence[object]) -> str:
    left_out = len(all_of_them) - SHOWN_OPS - len(rest)
    return f"{len(rest)} more" + (
        f" (and {left_out} smaller ones in .to_dataframe())" if left_out > 0 else ""
    )
