"""A Profile for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.profiling.report.sections import SECTIONS

if TYPE_CHECKING:
    from accel.profiling.profile import Profile


def profile_text(profile: Profile) -> str:
    """All sections that have something to say, in reading order, narrow enough for a terminal."""
    told = ("\n".join(section.text(profile)) for section in SECTIONS)
    return "\n\n".join(text for text in told if text)
