"""How long a step takes, with its spread and its count: the first line of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.html_parts import heading
from accel.profiling.report.section import Section
from accel.units import counted, milliseconds

if TYPE_CHECKING:
    from accel.profiling.profile import Profile


def step_line(profile: Profile) -> str:
    """The step time with its spread and its count, in one line."""
    if not profile.steps:
        return f"No training step was seen; the {profile.timing.whole} took {milliseconds(profile.timing.cell_ms)}"
    low, high = profile.spread_ms
    spread = f"quartiles {milliseconds(low)} to {milliseconds(high)}, " if profile.steps > 1 else ""
    unit = profile.timing.unit
    speed = f" · {profile.samples_per_s:,.0f} samples/s" if profile.samples_per_s else ""
    batches = f" · {profile.accumulation} batches a step" if profile.accumulation > 1 else ""
    return (
        f"{milliseconds(profile.step_ms)} a {unit} ({spread}{counted(profile.steps, unit)}){speed}{batches}"
    )


HEADLINE = Section(
    "headline",
    text=lambda profile: [step_line(profile)],
    html=lambda profile: [heading(step_line(profile))],
)
