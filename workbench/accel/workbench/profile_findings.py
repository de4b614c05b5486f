"""Add to a profile what the rules found in it, with only those suggestions that can work here."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from accel.diagnosis import HYGIENE, RULES, Evidence, diagnose
from accel.errors import LeftOut, in_short, in_words
from accel.plans.plan import Plan

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.profiling.findings import Finding
    from accel.profiling.profile import Profile
    from accel.workload.workload import Workload

DISTURBED = (
    "Other work on the machine came between in the profiled steps, which took more than twice as long as the rest: "
    "rules that look at single operations say nothing."
)

FEWEST_STEPS = 3  # of one or two, other work on the machine may have made any phase the longest
TOO_FEW = (
    "Findings that rest on shares of the step are left out: fewer than 3 steps ran free of warm-up and profiler. "
    "Run more steps, or profile fewer of them: %%accel profile --steps 2."
)

NO_STEP = "the cell takes no training step, and only training can be tried."


def with_findings(profile: Profile, workload: Workload, machine: Machine, *, kept: Plan) -> Profile:
    """The same profile with its findings, the largest predicted gain first.

    >>> with_findings(profile, workload, machine, kept=Plan(())).findings

    `kept` is the plan that was live. A rule that fails is named in a note: its fault must not cost the user the profile.
    """
    found: list[Finding] = []
    faults: list[str] = []
    for rule in RULES:
        try:
            found += diagnose(profile, workload, machine, live=kept.names, rules=(rule,))
        except Exception as error:  # rules read the user's own objects, which may answer with anything
            faults.append(f"The rule {rule.__name__} failed on this profile ({in_short(error)}).")
    if Evidence(profile, workload, machine).is_disturbed:
        faults.append(DISTURBED)
    if found and profile.timing.steps < FEWEST_STEPS:
        sure = [finding for finding in found if finding.kind in HYGIENE]
        faults += [TOO_FEW] * (len(sure) < len(found))
        found = sure
    left_out = LeftOut()
    possible = (
        left_out.unless(
            f"Plans for {each.kind}",
            partial(_possible, each, workload, machine, kept),
            replace(each, suggests=()),
        )
        for each in found
    )
    usable = sorted(filter(None, possible), key=lambda finding: -finding.gain)
    return replace(profile, findings=tuple(usable), notes=(*profile.notes, *faults, *left_out.said))


def _possible(finding: Finding, workload: Workload, machine: Machine, kept: Plan) -> Finding | None:
    """The finding without suggestions that are refused here; None when all it suggests is live already."""
    said: list[str] = []
    left: list[str] = []
    for suggestion in finding.suggests:
        plan = Plan.parse(suggestion)
        if all(name in kept.names for name in plan.names):
            continue
        if not workload.has_training_step:
            said.append(f"{plan}: {NO_STEP}")
            continue
        reasons = plan.why_not(workload, machine)
        refused = {name: why for name, why in reasons.items() if name not in kept.names}
        said += [f"{name}: {in_words(why)}" for name, why in refused.items()]
        left += [] if refused else [suggestion]
    if left or not finding.suggests:
        return replace(finding, suggests=tuple(left))
    if not said and not finding.remedy:
        return None
    cannot = "Cannot be tried here. " + " ".join(dict.fromkeys(said)) if said else ""
    return replace(finding, suggests=(), prediction=None, remedy=f"{finding.remedy} {cannot}".strip())
