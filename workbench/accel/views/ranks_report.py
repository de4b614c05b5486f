"""A RanksReport as text and as static HTML: ranks side by side, who holds the others up, and each rank's own report."""

from __future__ import annotations

from collections import Counter

from accel import units
from accel.html_parts import Markup, block, details, heading, note, table
from accel.profiling.findings import Finding
from accel.traces.aligned_calls import AlignedCall
from accel.traces.ranks_report import RankRow, RanksReport
from accel.traces.trace_profile import TraceProfile
from accel.units import milliseconds, percent
from accel.views.profile import report as profile_report
from accel.views.profile.parts import time_cell, whole

SHOWN_CALLS = 6
FOUND = "What to do about it: each rank's report has the findings in full"
HEADINGS = [
    "Rank",
    "Host",
    "Steps",
    "A step",
    "Own work",
    "Communication",
    "of it hidden",
    "Only waiting",
    "Late by",
]
CALLS = ["Collective", "Calls", "First waits for last", "Mostly last: rank", "in"]


def text(report: RanksReport) -> str:
    """For a terminal: a line a rank, the collectives, what was found."""
    cells = units.table([HEADINGS, *map(_cells, report.rows)], numeric=range(2, len(HEADINGS)))
    lines = [report.headline, report.verdict, "", *(f"  {line}" for line in cells)]
    if report.calls:
        lines += ["", "Collectives, by how long the first rank waits for the last"]
        lines += [f"  {_call_words(call)}" for call in report.calls[:SHOWN_CALLS]]
    if found := _found(report):
        lines += ["", FOUND]
        lines += [f"  {said}" for said in found]
    return "\n".join(
        [*lines, "", *(f"Note: {said}" for said in report.notes), *map(_source, report.profiles)]
    )


def html(report: RanksReport) -> Markup:
    """For a notebook, with the whole report on each rank folded away."""
    parts: list[object] = [heading(report.headline), note(report.verdict)]
    parts.append(table(HEADINGS, map(_cells, report.rows), numeric=range(2, len(HEADINGS))))
    if report.calls:
        shown = [
            (c.name, c.calls, time_cell(c.wait_ms), c.last_rank, percent(c.last_share)) for c in report.calls
        ]
        parts += [heading("Collectives"), table(CALLS, shown[:SHOWN_CALLS], numeric=range(1, 5))]
    if found := _found(report):
        parts += [heading(FOUND), *map(note, found)]
    parts += map(note, [*report.notes, *map(_source, report.profiles)])
    parts += [
        details(f"Rank {r.rank}", profile_report.html(p))
        for r, p in zip(report.rows, report.profiles, strict=True)
    ]
    return block(*parts)


def _found(report: RanksReport) -> list[str]:
    """Each kind of finding once, by the rank that it costs most, with how many ranks have it."""
    worst: dict[str, tuple[int, Finding]] = {}
    count: Counter[str] = Counter()
    for row, profile in zip(report.rows, report.profiles, strict=True):
        for finding in profile.findings:
            count[finding.kind] += 1
            if finding.kind not in worst or finding.share > worst[finding.kind][1].share:
                worst[finding.kind] = row.rank, finding
    found = sorted(worst.values(), key=lambda each: -each[1].share)
    of = len(report.rows)
    return [f"{one.title} (rank {rank}; found on {count[one.kind]} of {of})" for rank, one in found]


def _cells(row: RankRow) -> list[str]:
    talks = row.communication_ms > 0
    return [
        str(row.rank), row.host, str(row.steps), whole(milliseconds(row.step_ms)), whole(milliseconds(row.own_ms)),
        time_cell(row.communication_ms), whole(percent(row.overlap_share)) if talks else "–", time_cell(row.exposed_ms),
        "–" if row.late_ms is None else whole(milliseconds(row.late_ms)),
    ]  # fmt: skip


def _call_words(call: AlignedCall) -> str:
    return (
        f"{milliseconds(call.wait_ms):>9}  {call.name[:60]}  · {call.calls} calls, rank {call.last_rank} last in "
        f"{percent(call.last_share)} of them"
    )


def _source(profile: TraceProfile) -> str:
    return str(profile.source)
