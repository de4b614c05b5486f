"""A Profile as static HTML: readable in a saved notebook, without a kernel, in an untrusted one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import block
from accel.profiling.report.sections import SECTIONS

if TYPE_CHECKING:
    from accel.profiling.profile import Profile


def profile_html(profile: Profile) -> str:
    """All sections that have something to show, in reading order."""
    return block(*(part for section in SECTIONS for part in section.html(profile)))
