"""What a notebook that has been running may show, apart from what a fresh process does."""

from __future__ import annotations

import pytest

from accel.measuring.comparison import Interval
from accel.plans.plan import Plan
from accel.workers.samples import Samples
from accel.workers.stage import Standing
from accel.workers.trial_rows import comparison_of


def standing(low, high, faults=0, **own):
    base, own = (
        Samples(step_ns=[1e6] * 9, warm_up_s=1.0, warm_up_steps=1, steps=1, minor_faults=n, **more)
        for n, more in ((faults, {}), (0, own))
    )
    shown = Interval((low * high) ** 0.5, low, high, 3, 30)
    return Standing(samples=[own], base_samples=[base], shown=shown, verdict="faster")


def row(plan, steady, notebook):
    return comparison_of(Plan.parse(plan), steady, notebook, floor=[])


@pytest.mark.parametrize(
    ("plan", "steady", "here"),
    [
        ("steady_allocator+channels_last", (1.3, 1.4), (1.3, 2.2)),
        ("channels_last", (2.3, 2.5), (1.8, 2.5)),
        ("channels_last", (1.82, 2.15), None),  # as in a fresh process
    ],
)
def test_it_lies_between_all_page_faults_and_none(plan, steady, here):
    found = row(plan, standing(*steady), standing(1.8, 2.2, faults=2000))
    assert (found.here and (found.here.low, found.here.high)) == here
    assert ("as this notebook may" in found.sentence) == (here is not None)


def test_an_allocator_alone_may_gain_nothing_where_memory_is_held():
    found = row("steady_allocator", None, standing(1.8, 2.2, faults=2000))
    assert found.sentence.startswith(
        "1.99× [1.80, 2.20] faster in a fresh process that maps memory anew in each step, as most do; "
        "between 1.00× and 2.20× in one that holds it"
    )


def test_steps_that_map_little_memory_are_the_same_everywhere():
    assert (
        row("steady_allocator+channels_last", standing(1.3, 1.4), standing(1.8, 2.2, faults=90)).here is None
    )
    assert row("channels_last", standing(1.3, 1.4), None).here is None


def test_what_may_be_slower_in_this_notebook_is_undecided():
    found = row("channels_last", standing(0.9, 1.1), standing(1.1, 1.4, faults=2000))
    assert (found.verdict, found.may_be_slower_here) == ("undecided", True)
    assert "between 0.90× and 1.40×" in found.sentence
    assert row("channels_last", standing(1.02, 1.1), standing(1.1, 1.4, faults=2000)).verdict == "faster"


@pytest.mark.parametrize(
    ("plan", "low", "own", "verdict"),
    [
        ("loader_workers(n=2)", 1.03, {"epoch_steps": 2000}, "undecided"),  # 0.1 s of an epoch of 2 s
        ("loader_workers(n=2)", 1.10, {"epoch_steps": 2000}, "faster"),
        (
            "loader_workers(n=2)",
            1.10,
            {"epoch_steps": 2000, "first_step_s": 0.5},
            "undecided",
        ),  # seen to take longer
        ("loader_workers(n=2)", 1.03, {"epoch_steps": 2000, "times_epochs": True}, "faster"),
        (
            "loader_workers(n=3)",
            1.06,
            {"epoch_steps": 2000, "baseline_workers": 2},
            "faster",
        ),  # one more than before
        ("loader_workers(n=2, persistent=True)", 1.03, {"epoch_steps": 2000}, "faster"),
        ("loader_workers(n=0)", 1.03, {"epoch_steps": 2000}, "faster"),
        ("cache_dataset", 1.10, {"epoch_steps": 2000}, "undecided"),  # its first epoch was not over
        ("cache_dataset", 1.10, {"epoch_steps": 1}, "faster"),
        ("channels_last", 1.03, {"epoch_steps": 2000}, "faster"),
    ],
)
def test_a_plan_that_pays_once_an_epoch_is_faster_only_if_it_gains_more_than_that(plan, low, own, verdict):
    assert row(plan, None, standing(low, 1.2, **own)).verdict == verdict
