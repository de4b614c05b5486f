"""What a notebook that has been running may show, apart from what a fresh process does."""

from __future__ import annotations

import pytest

from accel.measuring.comparison import Interval
from accel.plans.plan import Plan
from accel.workers.samples import Samples
from accel.workers.stage import Standing
from accel.workers.trial_rows import comparison_of


def standing(low, high, faults=0):
    base, own = (
        Samples(step_ns=[1e6] * 9, warm_up_s=1.0, warm_up_steps=1, steps=1, minor_faults=n)
        for n in (faults, 0)
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
