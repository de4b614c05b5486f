"""Section: one part of the report on a profile, in words for a terminal and as static HTML."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from accel.units import counted

if TYPE_CHECKING:
    from accel.profiling.profile import Profile

SHOWN_ROWS = 12
WIDTH = 108  # of a line for a terminal
BLOCKS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Section:
    """Two functions of a profile; both give nothing where the profile has no such data, and the section is left out.

    >>> MEMORY = Section("memory", memory_text, memory_html)

    `text` gives lines of at most 110 characters, the title first; a report on a page shows that alone of a section that is not
    `is_open`, until it is clicked. `html` gives pieces made by `accel.html_parts` and
    `accel.views.profile.parts`, which escape: tables and inline-styled divs, never `<style>`, `<svg>` or a script.
    """

    name: str
    text: Callable[[Profile], Iterable[str]]
    html: Callable[[Profile], Iterable[object]]
    is_open: bool = False


def op_base(profile: Profile) -> str:
    """What the times of operations are an average of."""
    if not profile.profiled_steps:
        return f"the whole {profile.timing.whole}"
    return counted(profile.profiled_steps, "profiled step")


def block_of(share: float) -> str:
    """A character as high as the share, for curves of text.

    >>> block_of(0.0), block_of(1.0)
    ('▁', '█')
    """
    return BLOCKS[min(int(len(BLOCKS) * share), len(BLOCKS) - 1)]


def shortened(said: str, width: int) -> str:
    """The beginning of it, where it is longer."""
    return said if len(said) <= width else said[: width - 1] + "…"
