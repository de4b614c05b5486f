"""Which plans a search measures anew: its winner part by part, so that each one's share is known; and which is the best."""

from __future__ import annotations

import math
from collections.abc import Sequence

from accel.measuring.comparison import CHANGES, Comparison
from accel.plans.plan import Plan
from accel.tuning.race import WORTH

MOST_CONFIRMED = 5  # plans measured anew: the winner and what it is made of


def over_training(ratio: float, row: Comparison, steps: int) -> float:
    """The speed-up of a whole training: what a plan compiles first has to be earned back by its steps.

    >>> over_training(2.0, row, steps=1000)     # of 10 ms, where compiling takes 5 s
    1.0
    """
    whole_s = steps * row.baseline_ms / 1000
    if not Plan.parse(row.plan).compiles or not row.setup_s > 0 or not whole_s > 0:
        return ratio
    return 1 / (1 / ratio + row.setup_s / whole_s)


def best_of(good: Sequence[Comparison], steps: int) -> Comparison | None:
    """With which so many steps are over first; of those as good, one that leaves training as it is, with the fewest parts.

    Where steps map much memory, first of all one with a steady allocator. How much is mapped is luck of each process: fresh ones
    of one CNN took from 1,200 to 4,900 page faults a step. Without it the next process may be slower than those measured.
    """
    speeds = {row.plan: over_training(row.headline.ratio, row, steps) for row in good if row.headline}
    most = max(speeds.values(), default=math.nan)
    as_fast = [row for row in good if speeds.get(row.plan, 0.0) * (1 + WORTH / 2) > most]

    def order(row: Comparison) -> tuple[bool, bool, int]:
        plan = Plan.parse(row.plan)
        return row.effect == CHANGES, row.maps_much and not plan.needs_own_process, len(plan.entries)

    return min(as_fast, key=order, default=None)


def with_room(ladder: tuple[Plan, ...], others: list[Plan], most: int) -> tuple[tuple[Plan, ...], list[Plan]]:
    """As many as have room at once: steps in the middle of the ladder go first, its last never."""
    kept = max(most - len(others), 1)
    ladder = (*ladder[: kept - 1], *ladder[-1:]) if len(ladder) > kept else ladder
    return ladder, others[: max(most - len(ladder), 0)]


def growing(parts: Sequence[Plan]) -> tuple[Plan, ...]:
    """Plans of the first part, the first two, and so on to all; the last steps are taken together where there are many."""
    plans, whole = [], Plan()
    for part in parts:
        whole = whole.updated(part)
        plans.append(whole)
    return tuple(plans if len(plans) <= MOST_CONFIRMED else [*plans[: MOST_CONFIRMED - 1], plans[-1]])


def only(plan: Plan, names: Sequence[str]) -> Plan:
    """The entries of these names."""
    for name in plan.names:
        if name not in names:
            plan = plan.without(name)
    return plan
