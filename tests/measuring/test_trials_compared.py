"""Two trials in one line: it claims a difference only where their own intervals lie apart."""

from __future__ import annotations

import pytest

from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.ladder import Ladder
from accel.measuring.trials_compared import trials_compared


def ladder(**spans: tuple[float, float, float]) -> Ladder:
    rows = [
        Comparison(plan, "faster", Interval(*span, 3, 60), None, Quality("same"), "exact")
        for plan, span in spans.items()
    ]
    return Ladder(tuple(rows), 24.9, "", "")


@pytest.mark.parametrize(("other", "found"), [
    ((1.2, 1.15, 1.25), "autocast 1.25× [1.16, 1.35] as large. Each is over its own baseline."),
    ((1.4, 1.3, 1.5), "autocast 1.07× [0.97, 1.19], no difference is proven. Each is over its own baseline."),
    ((1.2, 0.0, float("inf")), None),
])  # fmt: skip
def test_a_plan_gains_more_only_where_the_intervals_lie_apart(other, found):
    later, earlier = ladder(prune=(2, 1.9, 2.1), autocast=(1.5, 1.45, 1.55)), ladder(autocast=other)
    line = trials_compared(later, earlier, ("B", "A"))
    assert line == (
        f"Speed-ups of B against A: {found}"
        if found
        else "B and A have no plan in common that was measured in the same way."
    )
