"""`--communication`: when each bucket of gradients was ready, sent and there, on a real run of two ranks."""

from __future__ import annotations

import json

import pytest

from accel.distributed.cells.ddp_result import DdpResult
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.communication.communication_report import CommunicationReport
from accel.distributed.communication.communication_times import (
    BucketTimes,
    CommunicationTimes,
    PassTimes,
    StepTimes,
)
from accel.distributed.data_parallel.gradient_exchange import GradientExchange
from accel.distributed.data_parallel.step_watching import StepWatching
from accel.distributed.ranks.rank_pool import RankPool
from tests.distributed.cells import TRAIN, notebook, on_ranks

WIDE = """
model = nn.Sequential(nn.Linear(6, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(), nn.Linear(128, 128), nn.Tanh(),
                      nn.Linear(128, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
"""
LONGER = TRAIN.replace("range(2)", "range(6)")  # 24 steps


@pytest.fixture(scope="module")
def watched(pool: RankPool) -> DdpResult:
    return on_ranks(pool, LONGER, WIDE, communication=True, bucket_mb=0.1)[1]


@pytest.fixture(scope="module")
def report(watched: DdpResult) -> CommunicationReport:
    assert watched.communication is not None
    return watched.communication


def test_buckets_hold_all_gradients_and_small_ones_are_several(report: CommunicationReport) -> None:
    model = notebook(WIDE)["model"]
    for rank in report.ranks:
        for step in rank.steps:
            (each,) = step.passes
            assert len(each.buckets) > 2
            assert sum(b.gradient_bytes for b in each.buckets) == sum(
                8 * p.numel() for p in model.parameters()
            )
            assert sum(b.parameters for b in each.buckets) == len(list(model.parameters()))
            assert all(b.sent_bytes == b.gradient_bytes for b in each.buckets)


def test_each_bucket_is_ready_then_sent_then_there_and_they_are_sent_in_order(
    report: CommunicationReport,
) -> None:
    for rank in report.ranks:
        for step in rank.steps:
            (each,) = step.passes
            for bucket in each.buckets:
                assert each.began_s <= bucket.ready_s <= bucket.began_s <= bucket.returned_s
                assert bucket.began_s < bucket.ended_s <= each.ended_s
            began = [bucket.began_s for bucket in each.buckets]
            assert began == sorted(began)
            assert each.computed_s == max(bucket.ready_s for bucket in each.buckets)
            assert (
                each.buckets[0].ready_s < each.computed_s
            )  # the first could go before the last gradient was there


def test_a_step_holds_its_parts_one_after_the_other(report: CommunicationReport) -> None:
    for rank in report.ranks:
        assert len(rank.steps) == 10
        for before, step in zip(rank.steps, rank.steps[1:], strict=False):
            assert step.step == before.step + 1
            assert step.began_s >= before.ended_s
        for step in rank.steps:
            (forward,), (optimizer,), (each,) = step.forward, step.optimizer, step.passes
            moments = (step.began_s, *forward, each.began_s, each.ended_s, *optimizer, step.ended_s)
            assert list(moments) == sorted(moments)


def test_what_is_exposed_and_what_is_hidden_are_parts_of_a_step(report: CommunicationReport) -> None:
    assert 0 <= report.overlap <= 1
    assert 0 < report.exposed_ms < report.step_ms
    assert 0 <= report.waited_ms <= report.exposed_ms
    assert len(report.buckets) == len(report.ranks[0].steps[0].passes[0].buckets)
    assert all(b.bus_bytes_per_s > 0 and (b.link_bytes_per_s or 0) > 0 for b in report.buckets)


def test_it_is_told_as_text_as_html_and_as_a_table(watched: DdpResult, report: CommunicationReport) -> None:
    told = str(watched)
    assert report.line in told
    assert all(sentence in told for sentence in report.advice)
    shown = watched._repr_mimebundle_()["text/html"]
    assert "Rank 1" in shown
    assert "<svg" not in shown
    assert len(report.to_dataframe()) == sum(
        len(each.buckets) for rank in report.ranks for step in rank.steps for each in step.passes
    )
    plain = json.loads(json.dumps(watched.to_dict()["communication"]))
    assert plain["overlap"] == report.overlap
    assert len(plain["buckets"]) == len(report.buckets)


def test_one_bucket_can_overlap_with_nothing_and_smaller_ones_are_named(pool: RankPool) -> None:
    wide = WIDE.replace("128", "448")
    report = on_ranks(pool, LONGER, wide, communication=True, bucket_mb=100)[1].communication
    assert report is not None
    assert len(report.buckets) == 1
    assert report.overlap == 0
    assert report.exposed_share > 0.05
    assert any("--bucket-mb" in sentence for sentence in report.advice)


WITHOUT_BUCKETS = {
    "a parameter that takes no part": (
        "class Part(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.used, self.never = nn.Linear(6, 3).double(), nn.Linear(6, 3).double()\n"
        "    def forward(self, x):\n        return self.used(x)\n"
        "model = Part()\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
        TRAIN,
        "two backward passes in a row",
    ),
    "too few steps": ("", TRAIN.replace("range(2)", "range(1)"), "too few steps"),
    "no model": (
        "w = torch.zeros(6, 3, dtype=torch.float64, requires_grad=True)\noptimizer = torch.optim.SGD([w], lr=0.1)",
        TRAIN.replace("model(inputs)", "inputs @ w"),
        "o model was called",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WITHOUT_BUCKETS)
def test_without_buckets_it_says_why(pool: RankPool, case: str) -> None:
    more, cell, why = WITHOUT_BUCKETS[case]
    report = on_ranks(pool, cell, more, communication=True)[1].communication
    assert report is not None
    assert why in report.line
    assert str(report) == report.line
    assert report.line in report._repr_mimebundle_()["text/html"]
    assert report.to_dict()["buckets"] == []


def seen_step(number: int, *passes: tuple[int, float]) -> StepTimes:
    """Of 6 ms and what its passes took: (bytes, seconds until their means were there), in one bucket each."""
    now, found = float(number), []
    for size, seconds in passes:
        bucket = BucketTimes(0, 4, size, size, now + 0.001, now + 0.001, now + 0.001, now + 0.001 + seconds)
        found.append(PassTimes(now, now + 0.001, now + 0.001 + seconds, [bucket]))
        now += 0.001 + seconds
    return StepTimes(number, float(number), now + 0.006, [], found, [])


def test_one_step_that_was_held_up_is_no_share_of_the_others() -> None:
    times = CommunicationTimes([seen_step(n, (4_000_000, 0.2 if n == 5 else 0.0007)) for n in range(10)], [])
    report = CommunicationReport((times, times), "gloo")
    assert report.exposed_ms == pytest.approx(0.7)
    assert report.step_ms == pytest.approx(7.7)
    assert report.exposed_share == pytest.approx(0.7 / 7.7)
    assert report.waited_ms == 0


def test_passes_of_two_models_are_not_mixed_among_the_buckets() -> None:
    times = CommunicationTimes([seen_step(n, (1_000_000, 0.001), (16_000_000, 0.016)) for n in range(9)], [])
    report = CommunicationReport((times, times), "gloo")
    (bucket,) = report.buckets
    assert (bucket.gradient_bytes, bucket.ended_ms) == (16_000_000, pytest.approx(17))
    assert "9 passes with other gradients are not among the buckets" in report.note


def test_nothing_is_watched_unless_it_is_asked_for(pool: RankPool) -> None:
    assert on_ranks(pool, TRAIN)[1].communication is None


def test_one_rank_exchanges_nothing() -> None:
    seen = StepWatching(RunOptions(communication=True)).finish(
        GradientExchange(1, on_wait=print), world_size=1
    )
    assert seen is not None
    assert "One rank exchanges nothing" in str(CommunicationReport((seen,), "gloo"))
