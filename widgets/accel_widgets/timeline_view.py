"""What the timeline panel shows of a Profile: slices as bytes, and their names, rows and lines in words."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from accel.html_parts import OTHER_COLOUR, PHASE_COLOURS
from accel.profiling.phase_words import phase_words
from accel.profiling.timeline import read_timeline
from accel.units import milliseconds

if TYPE_CHECKING:
    from accel.profiling.profile import Profile
    from accel.profiling.timeline import EventTimeline

NO_EVENTS = "No profiled steps to show. Put %%accel profile over your training cell and run it."
SUMMARISED = 20
BANDS = ("steps", "phases")  # they tell where one is: a search neither finds nor fades them
EMPTY: dict[str, Any] = {
    "names": [], "ops": [], "modules": [], "phases": [], "lines": [], "rows": [],
    "steps": 0, "counted_ms": [0.0, 0.0], "summary": [], "label": "",
    "start_ms": b"", "duration_ms": b"", "self_ms": b"", "name": b"", "phase": b"", "module": b"", "line": b"",
}  # fmt: skip


def timeline_traits(profile: Profile | None) -> dict[str, Any]:
    """The traits of the timeline panel; without events, what to do.

    >>> timeline_traits(profile)["rows"][0]["label"]
    'Steps'
    """
    if profile is None or profile.events is None:
        return {**EMPTY, "note": NO_EVENTS}
    timeline = read_timeline(profile.events)
    return {
        "names": list(timeline.names),
        "ops": list(timeline.ops),
        "steps": profile.events.kept.steps,
        "modules": list(timeline.modules),
        "phases": [_phase(name) for name in timeline.phases],
        "lines": [{"where": str(line), "text": line.text} for line in timeline.lines],
        "rows": [
            {
                "label": row.label,
                "kind": row.kind,
                "is_band": row.kind in BANDS,
                "lanes": [list(lane) for lane in row.lanes],
            }
            for row in timeline.rows
        ],
        "counted_ms": list(timeline.counted_ms),
        "label": label(timeline),
        "summary": summary(timeline),
        "note": note(timeline),
        **_arrays(timeline),
    }


def label(timeline: EventTimeline) -> str:
    """What a reader who does not see the picture is told it is."""
    last = float((timeline.start_ms + timeline.duration_ms).max())
    rows = ", ".join(row.label for row in timeline.rows)
    return f"Timeline of {len(timeline):,} slices over {milliseconds(last)}, in rows: {rows}."


def summary(timeline: EventTimeline) -> list[str]:
    """The names that take most time themselves, as sentences."""
    time_ms: Counter[int] = Counter()
    is_event = timeline.event >= 0
    for name, own_ms in zip(
        timeline.name[is_event].tolist(), timeline.self_ms[is_event].tolist(), strict=True
    ):
        time_ms[name] += own_ms
    calls = Counter(timeline.name[is_event].tolist())
    return [
        f"{timeline.names[name]}: {milliseconds(own_ms)} itself, {calls[name]:,} times"
        for name, own_ms in time_ms.most_common(SUMMARISED)
    ]


def note(timeline: EventTimeline) -> str:
    """What is not shown."""
    if not timeline.left_out:
        return ""
    return f"The {timeline.left_out:,} shortest slices, of at most {milliseconds(timeline.left_out_ms)}, are left out."


def _phase(name: str) -> dict[str, str]:
    return {"name": name, "label": phase_words(name), "colour": PHASE_COLOURS.get(name, OTHER_COLOUR)}


def _arrays(timeline: EventTimeline) -> dict[str, bytes]:
    """Little-endian, as every browser's typed arrays are."""
    times = {name: getattr(timeline, name).astype("<f8") for name in ("start_ms", "duration_ms", "self_ms")}
    numbers = {name: getattr(timeline, name).astype("<i4") for name in ("name", "phase", "module", "line")}
    return {name: values.tobytes() for name, values in (times | numbers).items()}
