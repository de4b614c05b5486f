"""Exercises whose work is a measurement: clear results pass or fail, what is near is measured again or not credited."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn

from accel import Workbench
from accel.distributed.cells.ddp_result import DdpResult, RankReport
from accel.distributed.ranks.rank_page import RankLane
from accel.errors import AccelError
from accel.labs.exercises import of_plans
from accel.labs.exercises.of_plans import faster_plan
from accel.labs.exercises.of_profiles import smaller_share
from accel.labs.exercises.of_ranks import even_ranks
from accel.measuring.comparison import Comparison, Interval, Quality
from accel.measuring.ladder import Ladder
from accel.profiling.step_timing import PhaseShare

CELL = "for _ in range(6):\n    optimizer.zero_grad()\n    model(x).sum().backward()\n    optimizer.step()\n"


@pytest.fixture(scope="module")
def with_shares():
    """A real profile whose phases have the given shares."""
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    workbench = Workbench({"model": model, "optimizer": optimizer, "x": torch.randn(4, 8)}, spare_workers=0)
    profile = workbench.profile(CELL)

    def made(**shares):
        phases = tuple(PhaseShare(name, share, share * 10) for name, share in shares.items())
        return dataclasses.replace(profile, timing=dataclasses.replace(profile.timing, phases=phases))

    yield made
    workbench.close()


@pytest.mark.parametrize(
    ("after", "passed", "hint"),
    [
        ({"optimizer": 0.05}, True, ""),
        ({"optimizer": 0.19}, False, ""),
        ({"optimizer": 0.098}, False, "too near to call"),
        ({"optimizer": 0.104}, False, "too near to call"),
        ({"forward": 0.9}, False, "has to stay in the step"),
    ],
    ids=["half", "hardly less", "just below", "just above", "left out"],
)
def test_a_share_counts_as_smaller_only_where_one_profile_can_tell(with_shares, after, passed, hint):
    seen = smaller_share(with_shares(optimizer=0.2), with_shares(**after), phase="optimizer", at_most=0.5)
    assert seen.passed is passed
    assert hint in seen.hint


def test_a_profile_compared_with_itself_is_not_smaller(with_shares):
    profile = with_shares(optimizer=0.2)
    assert not smaller_share(profile, profile, phase="optimizer", at_most=0.5).passed
    with pytest.raises(AccelError, match="-o changed"):
        smaller_share(profile, None, phase="optimizer", at_most=0.5)


def ladder(verdict, ratio, following="follows"):
    shown = Interval(ratio, 0.95 * ratio, 1.05 * ratio, 3, 60)
    row = Comparison("channels_last", verdict, shown, shown, Quality(following, 1e-3, 2e-3, 40), "close")
    return Ladder((row,), 20.0, "a machine", "an allocator")


@pytest.mark.parametrize(
    ("tried", "passed", "says"),
    [
        (ladder("faster", 2.0), True, "2.00 times as fast"),
        (ladder("faster", 1.05), False, "1.05 times as fast"),
        (ladder("no difference", 1.0), False, "No plan"),
        (ladder("slower", 0.7), False, "No plan"),
        (ladder("faster", 2.0, "drifts"), False, "its loss is another one"),
        (ladder("faster", 2.0, "other batches"), False, "its loss is another one"),
    ],
    ids=["faster", "too little", "no difference", "slower", "drifts", "other batches"],
)
def test_a_plan_passes_by_its_speed_and_its_loss(tried, passed, says):
    seen = faster_plan(tried, at_least=1.3)
    assert seen.passed is passed
    assert says in seen.saw


@pytest.mark.parametrize(
    ("first", "later", "passed"),
    [(1.35, [1.1, 1.15], False), (1.25, [1.4, 1.5], True)],
    ids=["a lucky trial", "an unlucky one"],
)
def test_a_plan_near_the_threshold_is_tried_again_and_the_median_decides(monkeypatch, first, later, passed):
    monkeypatch.setattr(of_plans, "_again", lambda row: later.pop(0))
    seen = faster_plan(ladder("faster", first), at_least=1.3)
    assert seen.passed is passed
    assert seen.figures["measured"] == 3.0


def run(own_ms, steps=26, output="loss 0.1"):
    """A run whose ranks spend so many ms of a step on work of their own."""
    ranks = tuple(
        RankReport(RankLane(rank, step=steps, samples=64 * steps, seconds=max(own_ms) * steps / 1000,
                            communication_s=(max(own_ms) - ms) * steps / 1000, step_ms=max(own_ms)), (rank,), 1, output)
        for rank, ms in enumerate(own_ms)
    )  # fmt: skip
    return DdpResult(ranks, "gloo", "per-rank", 9.0, 3.0, None, steps, max(own_ms))


@pytest.mark.parametrize(
    ("tried", "passed", "hint"),
    [
        (run((100, 110)), True, ""),
        (run((100, 280)), False, ""),
        (run((280, 100)), False, ""),
        (run((100, 145)), False, "too near to call"),
        (run((100, 110), output=""), False, "still has to report"),
        (run((100, 110), steps=4), False, "20 steps"),
        (run((100,)), False, "two ranks"),
    ],
    ids=["even", "rank 1 slower", "rank 0 slower", "near", "no report", "few steps", "one rank"],
)
def test_ranks_are_even_where_none_has_much_more_work_of_its_own(tried, passed, hint):
    seen = even_ranks(tried, most=1.5)
    assert seen.passed is passed
    assert hint in seen.hint


def test_work_that_is_no_run_and_no_ladder_is_refused():
    for check, needs in ((even_ranks, {"most": 1.5}), (faster_plan, {"at_least": 1.3})):
        with pytest.raises(AccelError, match="Pass what"):
            check(None, **needs)
