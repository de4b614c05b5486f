"""Why entries of a plan cannot work here, and on which of the cell's objects alone one of them could."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from accel.errors import AccelError, Reason
from accel.plans.chosen import kinds_changed
from accel.plans.plan import Plan, entry_text

if TYPE_CHECKING:
    from accel.accelerations import Acceleration
    from accel.machine import Machine
    from accel.workload.workload import Workload


class Refusals:
    """Reasons with, as the last one, what could be done instead: one unsuitable object need not refuse a whole entry.

    >>> Refusals().of(Plan.parse("cache_dataset"), workload, machine, kept=Plan(()))
    {'cache_dataset': [Reason(…), Reason('It can work on train_loader alone', 'Write cache_dataset(on="train_loader").')]}

    The objects are asked one by one only after a refusal, and once for a workload.
    """

    def __init__(self) -> None:
        self._told: weakref.WeakKeyDictionary[Workload, dict[str, list[Reason]]] = weakref.WeakKeyDictionary()

    def of(self, plan: Plan, workload: Workload, machine: Machine, *, kept: Plan) -> dict[str, list[Reason]]:
        """Reasons by name of the entry; what is live already can work, whatever it now finds in its place."""
        from accel.distributed.cells.plan_on_ranks import refused_with_own_ranks

        reasons = plan.why_not(workload, machine)
        told = {
            entry.name: [*reasons[entry.name], *self._instead(entry, plan, workload, machine)]
            for entry in plan.entries
            if entry.name in reasons and entry.name not in kept.names
        }
        return told or {name: [reason] for name, reason in refused_with_own_ranks(plan).items()}

    def _instead(self, entry: Acceleration, plan: Plan, workload: Workload, machine: Machine) -> list[Reason]:
        told = self._told.setdefault(workload, {})
        written = entry_text(entry, plan.objects_of(entry.name))
        if written not in told:
            told[written] = _instead(entry, plan.seen_by(entry, workload), machine)
        return told[written]


def _instead(entry: Acceleration, seen: Workload, machine: Machine) -> list[Reason]:
    """The objects, of several that it would change, on which alone the entry can work."""
    kinds = kinds_changed(entry)
    names = list(dict.fromkeys(role.name for role in seen.roles if role.kind in kinds))
    if len(names) < 2:
        return []
    alone = tuple(name for name in names if _works_on(entry, (name,), seen, machine))
    if len(alone) > 1 and not _works_on(entry, alone, seen, machine):
        alone = alone[:1]
    return (
        [Reason(f"It can work on {' and '.join(alone)} alone", f"Write {entry_text(entry, alone)}.")]
        if alone
        else []
    )


def _works_on(entry: Acceleration, names: tuple[str, ...], seen: Workload, machine: Machine) -> bool:
    try:
        plan = Plan((entry,), ((entry.name, names),)).resolved(seen)
    except AccelError:  # two objects of one class that the cell builds cannot be distinguished
        return False
    return not plan.why_not(seen, machine)
