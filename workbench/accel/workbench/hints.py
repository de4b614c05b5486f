"""Speed-ups expected of plans before a trial, from the last profile's findings and from earlier trials on this machine."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from accel.measuring.comparison import Interval
from accel.plans.plan import Plan
from accel.tuning.candidates import Hint

if TYPE_CHECKING:
    from accel.workbench.notebook_state import NotebookState
    from accel.workload.workload import Workload

FINDING, HISTORY = "a finding", "this machine's history"


def hints_for(workbench: NotebookState, workload: Workload) -> dict[str, Hint]:
    """The expected speed-ups of plans of one part, by the plan's text; earlier trials outrank findings.

    >>> hints_for(workbench, workload)["fused_optimizer"].source
    'a finding'
    """
    return {**_of_findings(workbench), **_of_history(workbench, workload)}


def best_first(plans: Iterable[Plan], hints: Mapping[str, Hint]) -> list[Plan]:
    """The plans, the largest expected speed-up first; nothing is expected of a part without a hint.

    >>> hints = {"autocast": Hint(FINDING, Interval(1.5, 1.2, 1.8, 0, 0))}
    >>> [str(plan) for plan in best_first([Plan.parse("channels_last"), Plan.parse("autocast")], hints)]
    ['autocast', 'channels_last']
    """

    def expected(plan: Plan) -> float:
        parts = [str(Plan((entry,))) for entry in plan.entries]
        return math.prod(hints[part].expected.ratio for part in parts if part in hints)

    return sorted(plans, key=expected, reverse=True)


def _of_findings(workbench: NotebookState) -> dict[str, Hint]:
    """Step speed-ups that the rules predict for plans with one part."""
    profile = workbench.profile_of_workload
    found: dict[str, Hint] = {}
    for finding in profile.findings if profile is not None else ():
        predicted = finding.prediction
        if predicted is None or predicted.of != "step" or not predicted.low > 0:
            continue
        expected = Interval(predicted.ratio, predicted.low, predicted.high, 0, 0)
        for plan in map(Plan.parse, finding.suggests):
            if len(plan.entries) == 1:
                found.setdefault(str(plan), Hint(FINDING, expected))
    return found


def _of_history(workbench: NotebookState, workload: Workload) -> dict[str, Hint]:
    """Speed-ups that the latest earlier trial of this cell measured for plans with one part."""
    found = {}
    for row in workbench.history_keeper.of_workload(workload, workbench.machine):
        is_known = row.low > 0 and math.isfinite(row.high) and not row.asked
        if is_known and "+" not in row.plan:
            found[row.plan] = Hint(HISTORY, Interval(row.ratio, row.low, row.high, 0, 0))
    return found
