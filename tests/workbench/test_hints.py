"""Which plan is measured first where there may be no time for all: the one that most is expected of."""

from __future__ import annotations

from accel.measuring.comparison import Interval
from accel.plans.plan import Plan
from accel.tuning.candidates import Hint
from accel.workbench.hints import FINDING, HISTORY, best_first

HINTS = {
    "autocast": Hint(FINDING, Interval(1.5, 1.2, 1.8, 0, 0)),
    "fused_optimizer": Hint(HISTORY, Interval(1.2, 1.1, 1.3, 0, 0)),
    "channels_last": Hint(HISTORY, Interval(0.8, 0.7, 0.9, 0, 0)),
}


def ordered(*texts):
    return [str(plan) for plan in best_first(map(Plan.parse, texts), HINTS)]


def test_the_plan_with_the_largest_expected_gain_comes_first():
    assert ordered("channels_last", "set_to_none", "fused_optimizer", "autocast") == [
        "autocast", "fused_optimizer", "set_to_none", "channels_last",
    ]  # fmt: skip


def test_the_gains_of_parts_are_multiplied():
    assert ordered("autocast", "autocast+fused_optimizer")[0] == "autocast+fused_optimizer"
    assert ordered("autocast", "autocast+channels_last")[0] == "autocast"


def test_plans_of_which_nothing_is_expected_keep_their_order():
    assert ordered("set_to_none", "cache_dataset") == ["set_to_none", "cache_dataset"]
