"""Open traces as reports with findings: what their events alone show, as advice for the notebook that they are from."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from accel.diagnosis import FEWEST_STEPS, RULES, Evidence, diagnose_trace
from accel.errors import in_short
from accel.traces import open_trace

if TYPE_CHECKING:
    from pathlib import Path

    from accel.profiling.findings import Finding
    from accel.traces.ranks_report import RanksReport
    from accel.traces.trace_profile import TraceProfile

UNDER_PROFILER = (
    "All of the trace ran under the profiler, which makes short operations look longer than they are."
)
DISTURBED = (
    "Some steps took much longer than the rest, as when other work comes between: rules that look at single operations say "
    "nothing."
)
ONE_STEP = "The trace has a single step; other steps may take more or less time."
FIRST_STEP = (
    "No advice is given: this trace has one step, perhaps the run's first, which is often slower than the rest. Record later "
    "steps, for example with schedule(wait=1, warmup=1, active=3)."
)
NO_PASSES = "No advice is given: accel found neither forward nor backward in these steps."
STACKS = (
    "Python's calls were recorded too (with_stack=True), so that Python takes far longer than it otherwise would: calling "
    "operations is not judged."
)


def open_with_findings(*files: str | Path) -> TraceProfile | RanksReport:
    """`open_trace`, and in each report what the rules of diagnosis find in it.

    >>> print(open_with_findings("trace.json.gz").findings[0])
    Waiting for data: 38 % of each step
    """
    return open_trace(*files, each=with_trace_findings)


def with_trace_findings(report: TraceProfile) -> TraceProfile:
    """The same report with its findings, the largest predicted gain first; only rules that a trace can answer speak.

    >>> with_trace_findings(report).findings

    A rule that fails is named in a note: a damaged trace must not cost the reader the report.
    """
    if report.completeness.is_of_file:  # the stamp says so: what is lost looks like idle time
        return report
    has_gpu = bool(report.source.gpus)
    fewest = 1 if report.begins_late or report.timing.warmup_steps else FEWEST_STEPS
    found: list[Finding] = []
    notes: list[str] = []
    for rule in RULES:
        try:
            found += diagnose_trace(report, machine_has_gpu=has_gpu, fewest_steps=fewest, rules=(rule,))
        except Exception as error:  # a trace may hold anything, and its damage is not always seen before
            notes.append(f"The rule {rule.__name__} failed on this trace ({in_short(error)}).")
    evidence = Evidence.of_trace(report, machine_has_gpu=has_gpu)
    notes += [STACKS] if evidence.is_slowed_by_stacks else []
    notes += [ONE_STEP if fewest == 1 else FIRST_STEP] if report.steps == 1 else []
    notes += [NO_PASSES] if report.steps >= fewest and not evidence.share("forward", "backward") else []
    notes += [DISTURBED] if report.steps and evidence.is_disturbed else []
    findings = sorted(map(_as_advice, found), key=lambda finding: -finding.gain)
    return replace(report, findings=tuple(findings), notes=(*report.notes, *notes))


def _as_advice(finding: Finding) -> Finding:
    """Plans become words: what `%accel try` would run here is this notebook's own cell."""
    plans = " or ".join(finding.suggests)
    advice = f"In the notebook that this trace is from: %%accel profile on its training cell, then %accel try {plans}."
    remedy = f"{finding.remedy} {advice if plans else ''}".strip()
    return replace(finding, suggests=(), remedy=remedy, wrong_when=_ended(finding.wrong_when))


def _ended(wrong_when: str) -> str:
    return f"{wrong_when if wrong_when.endswith('.') else f'{wrong_when}.'} {UNDER_PROFILER}"
