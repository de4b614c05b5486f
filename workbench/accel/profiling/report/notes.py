"""What a reader must know before believing the report, and the machine it is from: its last lines."""

from __future__ import annotations

from accel.html_parts import note
from accel.profiling.report.section import Section

NOTES = Section(
    "notes",
    text=lambda profile: [*(f"Note: {said}" for said in profile.notes), profile.machine_line],
    html=lambda profile: map(note, [*profile.notes, profile.machine_line]),
)
