"""The plans of a trial: those that can be measured, and why the others cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.errors import AccelError, NotApplicable, Reason, of_each
from accel.plans.plan import Plan

if TYPE_CHECKING:
    from accel.workbench.notebook_state import NotebookState
    from accel.workload.workload import Workload


def sorted_out(
    workbench: NotebookState, plans: tuple[str | Plan, ...], workload: Workload, on: str | None
) -> tuple[list[Plan], dict[str, list[Reason]]]:
    """Plans that can be measured, and why the others cannot, by their text; raises NotApplicable when none can.

    >>> sorted_out(workbench, ("channels_last", "autocast"), workload, None)
    ([Plan.parse("channels_last")], {"autocast": [Reason(…)]})
    """
    parsed: list[Plan] = []
    refused: dict[str, NotApplicable] = {}
    for plan in dict.fromkeys(plans):
        try:
            checked = _differing(workbench.checked(plan, workload, on), workbench.kept)
            if checked not in parsed:
                parsed.append(checked)
        except NotApplicable as error:
            refused[str(plan)] = error
    if not plans:
        raise AccelError(
            "%accel try", because="it names no plan", do="Name one or more: %accel try channels_last"
        )
    said = {plan: error.reasons for plan, error in refused.items()}
    if not parsed and len(refused) == 1:
        raise refused.popitem()[1]
    if not parsed:
        raise NotApplicable("None of these plans", of_each(said))
    return parsed, said


def _differing(plan: Plan, kept: Plan) -> Plan:
    """The plan, if it differs from the baseline: what is live in the whole process is in the baseline too."""
    if all(entry.needs_own_process and entry.name in kept.names for entry in plan.entries):
        reason = Reason("It is live in this process, and so in the baseline", "Undo it first to compare.")
        raise NotApplicable(str(plan), [reason])
    return plan
