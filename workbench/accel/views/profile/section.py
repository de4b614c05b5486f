"""Section: one part of the report on a profile, in words for a terminal and as static HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.units import counted

if TYPE_CHECKING:
    from accel.profiling.profile import Profile

SHOWN_ROWS = 12


@dataclass(frozen=True)
class Section:
    """Two functions of a profile; both give nothing where the profile has no such data, and the section is left out.

    >>> MEMORY = Section("memory", memory_text, memory_html)

    `text` gives lines of at most 110 characters, the title first. `html` gives pieces made by `accel.html_parts` and
    `accel.views.profile.parts`, which escape: tables and inline-styled divs, never `<style>`, `<svg>` or a script.
    """

    name: str
    text: Callable[[Profile], Iterable[str]]
    html: Callable[[Profile], Iterable[object]]


def op_base(profile: Profile) -> str:
    """What the times of operations are an average of."""
    if not profile.profiled_steps:
        return f"the whole {profile.timing.whole}"
    return counted(profile.profiled_steps, "profiled step")
