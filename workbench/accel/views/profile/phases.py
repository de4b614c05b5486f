"""Where a step goes: its phases and the gaps between them, from the marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import heading, stacked_bar
from accel.profiling.phase_words import phase_words
from accel.units import milliseconds, percent
from accel.views.profile.parts import long_table, phase_bar, time_cell, whole
from accel.views.profile.section import Section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.profiling.profile import Profile
    from accel.profiling.step_timing import PhaseShare

SMALLEST = 0.001
WORTH_A_ROW = 0.01  # of a page, or of a screen


def phases_title(profile: Profile) -> str:
    """What the phases are shares of."""
    timing = profile.timing
    return f"Where a {timing.unit} goes" if profile.steps else f"Where the {timing.whole}'s time goes"


def _text(profile: Profile) -> Iterator[str]:
    if not profile.phases:
        return
    yield phases_title(profile)
    yield from map(phase_line, _shown(profile))


def phase_line(phase: PhaseShare) -> str:
    """A phase for a terminal, with a bar."""
    name, filled = phase_words(phase.name) + ":", "█" * round(24 * phase.share)
    return f"  {name:<34}{percent(phase.share):>7}  {milliseconds(phase.ms):>9}  {filled}".rstrip()


def _html(profile: Profile) -> Iterator[object]:
    if not profile.phases:
        return
    yield heading(phases_title(profile))
    yield stacked_bar([(phase.name, phase.share) for phase in profile.phases])
    rows = [
        (phase_words(p.name), whole(percent(p.share)), time_cell(p.ms), phase_bar(p.share, p.name))
        for p in _shown(profile)
    ]
    large = max(1, sum(phase.share >= WORTH_A_ROW for phase in profile.phases))
    yield from long_table(["Phase", "Share", "Time", ""], rows, numeric=(1, 2), shown=large)


def _shown(profile: Profile) -> list[PhaseShare]:
    return [phase for phase in profile.phases if phase.share >= SMALLEST]


PHASES = Section("phases", _text, _html, is_open=True)
