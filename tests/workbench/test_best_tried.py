"""What `%accel keep` takes and `%accel status` tells after a trial by quality, and what of it is kept in the history."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest

from accel.errors import AccelError
from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.ladder import Ladder
from accel.measuring.quality_target import QualityTarget
from accel.measuring.time_to_quality import TimeToQuality
from accel.measuring.training_curve import QualityPoint, QualityRow, TrainingCurve
from accel.plans import Plan
from accel.workbench.best_tried import best_plan, summary
from accel.workbench.history_keeping import records_of

ABOUT = {
    "profile": "a", "workload": "w", "time": "2026-01-31T10:05:00+00:00", "described": "9 steps", "machine": "m",
    "versions": "torch 2.14",
}  # fmt: skip


def row(plan, *seconds, quality=0.95, **more):
    """A plan that reached the target after so many seconds, a seed each."""
    curves = [
        TrainingCurve(
            seed,
            (QualityPoint(0.0, 0, 0.1), QualityPoint(0.9 * s, 90, 0.7), QualityPoint(s, 100, quality)),
            s,
            100,
            1600,
            ending="reached",
        )
        for seed, s in enumerate(seconds)
    ]
    return QualityRow(plan, "exact", tuple(curves), **more)


def result(*rows):
    return TimeToQuality(
        rows, "accuracy", "accuracy of model on val_loader", True, QualityTarget("accuracy", True, 0.95), None, "m"
    )  # fmt: skip


BASELINE = row("baseline", 4.0, 4.1, 4.2)
SOONER = row("channels_last", 3.0, 3.05, 3.15)
SOONEST = row("fused_optimizer", 2.0, 2.05, 2.1)
LATER = row("set_to_none", 8.0, 8.2, 8.4)
REFUSED = QualityRow("pin_memory", "exact", state="not applicable", error="No GPU. Leave it off.")


def trial(*rows):
    plans = [Plan.parse(row.plan) for row in rows if row.plan != "baseline" and row.state != "not applicable"]
    return SimpleNamespace(result=result(*rows), plans=plans, state="done", is_over=True, seconds=41.2)


def test_keep_takes_the_soonest_of_a_trial_by_quality():
    assert best_plan([trial(BASELINE, SOONER, SOONEST, LATER, REFUSED)]) == Plan.parse("fused_optimizer")


def test_keep_takes_nothing_that_is_not_told_sooner():
    one_seed = [row("baseline", 4.0), row("channels_last", 2.0), row("set_to_none", 8.0)]
    with pytest.raises(AccelError, match="sooner as good"):
        best_plan(
            [trial(BASELINE, SOONER), trial(*one_seed)]
        )  # the last trial counts, whatever an older one found


def test_a_refusal_to_keep_names_a_plan_that_was_tried():
    with pytest.raises(AccelError, match="%accel keep set_to_none"):
        best_plan([trial(BASELINE, REFUSED, LATER)])
    with pytest.raises(AccelError, match="try others"):
        best_plan([trial(BASELINE, REFUSED)])


def test_status_tells_what_was_asked_and_what_was_best():
    told = summary(trial(BASELINE, SOONER, LATER))
    assert told.startswith("done, 41 s; Seconds of training until accuracy>=0.95; Keep channels_last: ")
    assert "sooner [" in told
    assert "set_to_none is not proven sooner as good" in summary(trial(BASELINE, LATER))


def test_the_history_keeps_a_row_for_each_plan_that_was_trained():
    sooner, once = records_of(trial(BASELINE, SOONER, row("autocast", 2.0), REFUSED), ABOUT)
    assert (sooner.plan, sooner.verdict, sooner.asked) == ("channels_last", "sooner", "accuracy>=0.95")
    assert (sooner.seconds, sooner.baseline_seconds, sooner.seeds) == (3.05, 4.1, 3.0)
    assert sooner.low < sooner.ratio < sooner.high
    assert sooner.quality == "accuracy 0.95, 0.95 without"
    assert (once.verdict, once.seeds) == ("undecided", 1.0)
    assert not math.isnan(once.ratio)
    assert math.isnan(once.low)  # one seed has no interval


def ladder(*rows):
    plans = [Plan.parse(row.plan) for row in rows]
    return SimpleNamespace(
        result=Ladder(rows, 20.0, "m", "a"), plans=plans, state="done", is_over=True, seconds=9.0
    )


def tried(plan, shown=None, **more):
    return Comparison(plan, "undecided", shown, None, Quality("not measured"), "exact", **more)


@pytest.mark.parametrize(
    ("rows", "because"),
    [
        ([tried("channels_last")], "the last trial measured no plan"),
        ([tried("channels_last", state="stopped")], "the last trial was stopped before it measured a plan"),
        ([tried("channels_last", Interval(1.0, 0.9, 1.1, 2, 9))], "no plan of the last trial was faster"),
        ([tried("pin_memory", state="not applicable")], "no plan of the last trial was faster"),
    ],
)
def test_keep_says_whether_anything_was_measured(rows, because):
    with pytest.raises(AccelError, match=because):
        best_plan([ladder(*rows)])
