"""The most expensive modules: forward, backward and everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import bar, heading
from accel.profiling.phase_words import NO_MODULE, phase_words
from accel.units import milliseconds, percent
from accel.views.profile.parts import long_table, time_cell, whole
from accel.views.profile.section import SHOWN_ROWS, Section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.profiling.op_table import OpRow
    from accel.profiling.profile import Profile

HEADINGS = ("Module", "Forward", "Backward", "Elsewhere", "Share", "")


def _text(profile: Profile) -> Iterator[str]:
    rows = [row for row in profile.by_module if row.module]
    if rows:
        yield "Most expensive modules"
        yield from map(_line, rows[:SHOWN_ROWS])


def _line(row: OpRow) -> str:
    where = f"{row.module}  · {phase_words(row.phase)}"
    return f"  {percent(row.share):>7}  {milliseconds(row.self_ms):>9}  {where}"


def _html(profile: Profile) -> Iterator[object]:
    if not profile.rows:
        return
    yield heading("By module")
    times: dict[str, list[float]] = {}
    shares: dict[str, float] = {}
    for row in profile.rows:
        column = {"forward": 0, "recompute": 0, "backward": 1}.get(row.phase, 2)
        times.setdefault(row.module, [0.0, 0.0, 0.0])[column] += row.self_ms
        shares[row.module] = shares.get(row.module, 0.0) + row.share
    cells = [
        (name or NO_MODULE, *map(time_cell, times[name]), whole(percent(shares[name])), bar(shares[name]))
        for name in sorted(times, key=lambda name: -shares[name])
    ]
    yield from long_table(HEADINGS, cells, numeric=range(1, 5))


MODULES = Section("modules", _text, _html)
