"""Which plans a search measures anew, and which of those that are as fast is the answer."""

from __future__ import annotations

import math
import threading

import pytest

from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.interval import DEFAULT_MALLOC_NOISE
from accel.plans.plan import Plan
from accel.workers.samples import Effort
from accel.workers.stage import ENOUGH, Stage, StagePlan
from accel.workers.tune_ladder import best_of, growing, with_room


def row(plan, ratio, *, effect="exact", faults=0.0, setup_s=0.0):
    shown = Interval(ratio, 0.9 * ratio, 1.1 * ratio, 3, 30)
    return Comparison(
        plan, "faster", shown, None, Quality("same"), effect, page_faults=(faults, 0.0), baseline_ms=10.0, setup_s=setup_s
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([("channels_last", 2.0), ("channels_last+fused_optimizer", 2.01)], "channels_last"),
        ([("channels_last", 1.5), ("channels_last+fused_optimizer", 2.0)], "channels_last+fused_optimizer"),
        ([("batch_size", 2.01, "changes training"), ("channels_last", 2.0)], "channels_last"),
    ],
)
def test_of_those_that_are_as_fast_the_plainest_is_taken(rows, best):
    made = [row(plan, ratio, effect=effect[0] if effect else "exact") for plan, ratio, *effect in rows]
    assert best_of(made, steps=1000).plan == best


@pytest.mark.parametrize(("steps", "best"), [(3_000, "channels_last"), (100_000, "compile_model")])
def test_what_compiling_takes_counts_by_how_long_the_training_is(steps, best):
    rows = [row("compile_model", 1.6, setup_s=20.0), row("channels_last", 1.5)]
    assert best_of(rows, steps).plan == best


@pytest.mark.parametrize(
    ("faults", "best"), [(4000.0, "steady_allocator+channels_last"), (20.0, "channels_last")]
)
def test_where_steps_map_much_memory_the_plan_that_does_not_hang_on_it_is_taken(faults, best):
    rows = [
        row("channels_last", 2.0, faults=faults),
        row("steady_allocator+channels_last", 1.99, faults=faults),
    ]
    assert best_of(rows, steps=1000).plan == best


def test_plans_have_room_at_once_and_the_winner_is_always_among_them():
    plans = growing(
        [Plan.parse(name) for name in ("channels_last", "fused_optimizer", "autocast", "set_to_none")]
    )
    other = Plan.parse("cache_dataset")
    assert with_room(plans, [other], 9) == (plans, [other])
    assert with_room(plans, [other], 3) == ((plans[0], plans[-1]), [other])
    assert with_room(plans, [other], 1) == ((plans[-1],), [])


def test_plans_below_the_winner_wait_until_it_is_proven_and_keep_no_stage_going_once_it_is_decided():
    ladder = ("channels_last", "channels_last+autocast", "channels_last+autocast+fused_optimizer")
    plan = StagePlan(
        "notebook", "as the notebook", tuple(map(Plan.parse, reversed(ladder))), DEFAULT_MALLOC_NOISE, 60, Effort(),
        is_headline=True, ladder=ladder, on_the_way=frozenset(ladder[:1]),
    )  # fmt: skip
    stage = Stage(plan, lambda variants: None, stop=threading.Event(), on_change=lambda: None, deadline=math.inf,
                  measures_floor=False)  # fmt: skip
    assert stage._next(1) == [ladder[2], ladder[1]]
    stage.standings[ladder[2]].verdict = "faster"
    assert stage._next(ENOUGH + 1) == []
