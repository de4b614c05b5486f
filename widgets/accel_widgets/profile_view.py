"""What the panel shows of a Profile: its phases and operations as rows with texts, in the profile's own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from accel.html_parts import OTHER_COLOUR, PHASE_COLOURS
from accel.profiling.phase_words import NO_MODULE, phase_words
from accel.units import milliseconds, percent

if TYPE_CHECKING:
    from accel.profiling.profile import Profile

MOST_ROWS = 2000  # about 0.5 MB to the page; the rest is in profile.to_dataframe()
NO_PROFILE = "No profile yet. Put %%accel profile over your training cell and run it."


def phase_bar(profile: Profile | None) -> dict[str, Any]:
    """The traits of the phase bar; without a profile, what to do.

    >>> phase_bar(profile)["headline"]
    '24.9 ms a step'
    """
    if profile is None:
        return {"phases": [], "headline": "", "facts": [], "remarks": [], "note": NO_PROFILE}
    phases = [
        {
            "name": phase.name,
            "label": phase_words(phase.name),
            "share": phase.share,
            "share_text": percent(phase.share),
            "time_text": milliseconds(phase.ms),
            "colour": PHASE_COLOURS.get(phase.name, OTHER_COLOUR),
        }
        for phase in profile.phases
        if phase.share >= 0.001
    ]
    remarks = list(profile.notes)
    return {
        "phases": phases,
        "headline": headline(profile),
        "facts": facts(profile),
        "remarks": remarks,
        "note": "",
    }


def headline(profile: Profile) -> str:
    """The step time, large."""
    if not profile.steps:
        return f"No training step was seen; the cell took {milliseconds(profile.timing.cell_ms)}"
    return f"{milliseconds(profile.step_ms)} a step"


def facts(profile: Profile) -> list[str]:
    """What stands next to it: speed, spread, count."""
    low, high = profile.spread_ms
    told = [
        f"{profile.samples_per_s:,.0f} samples/s" if profile.samples_per_s else "",
        f"quartiles {milliseconds(low)} to {milliseconds(high)}" if profile.steps > 1 else "",
        f"{profile.steps} step{'s' if profile.steps > 1 else ''} timed" if profile.steps else "",
        f"{profile.accumulation} batches a step" if profile.accumulation > 1 else "",
    ]
    return [fact for fact in told if fact]


def op_rows(profile: Profile | None) -> list[dict[str, Any]]:
    """The rows of the op table, most expensive first."""
    return [
        {
            "op": row.op,
            "phase": row.phase,
            "module": row.module,
            "self_ms": row.self_ms,
            "share": row.share,
            "calls": row.calls,
            "colour": PHASE_COLOURS.get(row.phase, OTHER_COLOUR),
            "texts": {
                "phase": phase_words(row.phase),
                "module": row.module or NO_MODULE,
                "self_ms": milliseconds(row.self_ms),
                "share": percent(row.share),
                "calls": f"{row.calls:.3g}",
            },
        }
        for row in (profile.rows[:MOST_ROWS] if profile else ())
    ]
