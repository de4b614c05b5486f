"""Where the code reads tensors back, with the line: a GPU would be waited for there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import Markup, heading, note, text
from accel.views.profile.parts import count_cell, long_table, time_cell
from accel.views.profile.section import SHOWN_ROWS, Section

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.profiling.profile import Profile

TITLE = "Reading tensors back (per step)"
ON_CPU = "These tensors are on the CPU, where nothing waits; on a GPU each of these calls waits for it."


def _text(profile: Profile) -> Iterator[str]:
    if profile.synchronisations:
        yield TITLE
        yield from (f"  {call}" for call in profile.synchronisations[:SHOWN_ROWS])
        if _all_on_cpu(profile):
            yield f"  {ON_CPU}"


def _html(profile: Profile) -> Iterator[object]:
    if not profile.synchronisations:
        return
    yield heading(TITLE)
    cells = [
        (call.call, call.place, Markup(f"<code>{text(call.text)}</code>"), call.device, time_cell(call.ms),
         count_cell(call.calls))
        for call in profile.synchronisations
    ]  # fmt: skip
    headings = ["Call", "Where", "Line", "Tensor on", "Time", "Calls"]
    yield from long_table(headings, cells, numeric=[4, 5], rest_in=".synchronisations")
    if _all_on_cpu(profile):
        yield note(ON_CPU)


def _all_on_cpu(profile: Profile) -> bool:
    return all(call.device == "cpu" for call in profile.synchronisations)


SYNCHRONISATIONS = Section("synchronisations", _text, _html)
