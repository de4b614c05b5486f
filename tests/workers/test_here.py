"""What a notebook that has been running may show, apart from what a fresh process does."""

from __future__ import annotations

import pytest

from accel.measuring.comparison import TOO_FEW_EPOCHS, Interval
from accel.plans.plan import Plan
from accel.workers.samples import Samples
from accel.workers.stage import Standing
from accel.workers.trial_rows import comparison_of, may_be_slower_where_not_measured


def samples(step_ms=1.0, **more):
    usual = {"warm_up_s": 1.0, "warm_up_steps": 1, "steps": 1}
    return Samples(step_ns=[step_ms * 1e6] * 9, **usual | more)


def standing(low, high, faults=0, verdict="faster", **own):
    shown = Interval((low * high) ** 0.5, low, high, 3, 30)
    base = samples(minor_faults=faults)
    return Standing(samples=[samples(**own)], base_samples=[base], shown=shown, verdict=verdict)


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
    ("steady", "fresh", "verdict", "open_because", "time_decides"),
    [
        ((0.995, 1.08), (1.02, 1.10), "undecided", "heap", True),  # however little lower
        (
            (0.92, 1.06),
            (1.02, 1.10),
            "undecided",
            "heap",
            False,
        ),  # its middle is below 1: time makes it surer
        ((0.90, 0.95), (1.10, 1.40), "undecided", "heap", False),
        ((1.005, 1.08), (1.02, 1.10), "faster", "", False),
    ],
)
def test_time_decides_whether_a_plan_is_slower_here_only_if_it_is_likely_to_be_faster(
    steady, fresh, verdict, open_because, time_decides
):
    found = row("channels_last", standing(*steady, verdict="undecided"), standing(*fresh, faults=2000))
    assert (found.verdict, found.open_because, found.time_decides) == (verdict, open_because, time_decides)


@pytest.mark.parametrize(
    ("low", "high", "time_decides"), [(1.03, 1.2, True), (1.01, 1.04, False), (1.06, 1.2, None)]
)
def test_time_decides_whether_starting_workers_costs_more_only_if_the_usual_gain_is_larger(
    low, high, time_decides
):
    found = row("loader_workers(n=2)", None, standing(low, high, epoch_steps=2000))  # 5 % of an epoch
    is_open = time_decides is not None
    assert (found.verdict, found.open_because) == (("undecided", "starting") if is_open else ("faster", ""))
    assert found.time_decides is bool(time_decides)


@pytest.mark.parametrize(
    ("plan", "own", "is_open"),
    [
        ("cache_dataset", {"pass_steps": 20, "steps": 38}, True),  # 39 of 40 steps
        ("cache_dataset", {"pass_steps": 20, "steps": 39}, False),
        ("cache_dataset+channels_last", {"pass_steps": 20, "warm_up_steps": 19, "steps": 5}, True),
        ("cache_dataset", {"pass_steps": 20, "warm_up_steps": 20, "steps": 5}, False),
        ("cache_dataset", {"pass_steps": 0, "epoch_steps": 20}, False),  # nobody knows how long a pass is
        ("channels_last", {"pass_steps": 20}, False),
    ],
)
@pytest.mark.parametrize("verdict", ["faster", "no difference"])
def test_what_gains_from_the_second_epoch_is_open_until_a_pass_was_warm_up_or_two_were_taken(
    plan, own, is_open, verdict
):
    found = row(plan, None, standing(1.1, 1.2, verdict=verdict, **own))
    expected = ("undecided", "first epoch", True) if is_open else (verdict, "", False)
    assert (found.verdict, found.open_because, found.time_decides) == expected
    assert (TOO_FEW_EPOCHS in found.notes) == is_open


@pytest.mark.parametrize(
    ("verdict", "before", "alone"),
    [
        ("faster", "undecided", "faster"),
        ("slower", "slower", "slower"),
        ("no difference", "no difference", "no difference"),
    ],
)
def test_a_gain_under_a_steady_allocator_alone_awaits_the_stage_that_runs_as_the_notebook(
    verdict, before, alone
):
    steady = standing(1.1, 1.2, verdict=verdict)
    assert row("channels_last", steady, Standing()).verdict == before
    assert row("channels_last", steady, None).verdict == alone


@pytest.mark.parametrize(
    ("plan", "low", "faults", "own", "may_be"),
    [
        ("channels_last", 1.1, (2000, 0), 8.0, True),  # 10 ms against 8: held, 8 against 8
        ("channels_last", 1.3, (2000, 0), 8.0, False),
        ("channels_last", 1.1, (2000, 2000), 8.0, False),  # held, the plan gains more
        ("channels_last", 1.1, (400, 0), 8.0, False),
        ("channels_last", 1.1, (20_000, 0), 8.0, True),
        ("channels_last", 0.9, (2000, 0), 8.0, False),  # slower here already
        ("steady_allocator", 1.1, (2000, 0), 8.0, False),
        ("steady_allocator+channels_last", 1.1, (2000, 0), 8.0, True),
    ],
)
def test_page_faults_that_only_the_baseline_takes_may_be_all_of_a_gain(plan, low, faults, own, may_be):
    base, mine = (samples(ms, minor_faults=count) for ms, count in zip((10.0, own), faults, strict=True))
    shown = Interval(low * 1.1, low, low * 1.2, 3, 30)
    notebook = Standing(samples=[mine], base_samples=[base], shown=shown, verdict="faster")
    assert may_be_slower_where_not_measured(Plan.parse(plan), notebook) is may_be
    assert not may_be_slower_where_not_measured(Plan.parse(plan), None)


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
        ("cache_dataset", 1.10, {"pass_steps": 2000}, "undecided"),  # its first epoch was not over
        ("cache_dataset", 1.10, {"pass_steps": 1}, "faster"),
        ("channels_last", 1.03, {"epoch_steps": 2000}, "faster"),
    ],
)
def test_a_plan_that_pays_once_an_epoch_is_faster_only_if_it_gains_more_than_that(plan, low, own, verdict):
    assert row(plan, None, standing(low, 1.2, **own)).verdict == verdict
