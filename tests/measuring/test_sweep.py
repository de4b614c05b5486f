"""Speed-up, efficiency and knee: on the course's reference figures, and what must hold for any figures."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.measuring.sweep import Sweep, is_much_worse
from accel.measuring.sweep_knee import WITHIN, Knee
from accel.measuring.sweep_row import Configuration, SweepRow, SweptRun
from accel.units import counted

THREADS = {1: 311, 2: 189, 4: 119, 8: 93, 12: 73, 16: 73}  # the course's CNN on 16 cores, seconds of 5 epochs
INSTANCES = {(2, 8): (58, 0.4401), (4, 4): (45, 0.4011), (8, 2): (37, 0.3863)}
ONECCL = {(2, 8): (53, 0.4312), (4, 4): (42, 0.4103), (8, 2): (35, 0.3799)}
GPUS = {1: 707, 2: 393, 3: 276, 4: 208, 5: 172, 6: 142, 7: 122, 8: 109}


def run(seconds: float, quality: float | None = None, *, rate: float = 0.0, samples: int = 0) -> SweptRun:
    return SweptRun(seconds, samples, 100, rate, 0.1, quality)


def course(*, oneccl: bool = False) -> Sweep:
    rows = [SweepRow(Configuration(1, t), (run(s, 0.4534 if t == 16 else None),)) for t, s in THREADS.items()]
    tables = {"gloo": INSTANCES} | ({"ccl": ONECCL} if oneccl else {})
    for backend, table in tables.items():
        rows += [SweepRow(Configuration(*at, backend), (run(*told),)) for at, told in table.items()]
    return Sweep(tuple(rows), metric="accuracy")


def test_the_knee_of_the_course_is_at_twelve_threads_and_processes_have_none() -> None:
    threads, processes = course().knees
    assert (threads.what, threads.at, threads.is_reached) == ("thread", 12, True)
    assert (
        threads.sentence(course().shown_cost) == "One process: 16 threads do no more than 12 (73 s and 73 s)."
    )
    assert (processes.what, processes.at, processes.is_reached) == ("process", 8, False)
    assert dict(processes.costs) == {1: 73, 2: 58, 4: 45, 8: 37}  # on 16 CPUs, whoever shares them
    assert "no knee up to 8 processes: they are 1.22 times as fast as 4 (37 s and 45 s)" in str(course())


def test_speed_up_and_efficiency_are_against_the_first_row_and_the_answer_is_against_the_best_single_process() -> (
    None
):
    sweep = course()
    sixteen, eight_by_two = sweep.rows[5], sweep.rows[-1]
    assert sweep.fastest is eight_by_two
    assert sweep.speed_up(sixteen).mean == pytest.approx(311 / 73)
    assert sweep.efficiency(sixteen) == pytest.approx(311 / 73 / 16)
    assert sweep.efficiency(eight_by_two) == pytest.approx(311 / 37 / 16)
    assert sweep.best_single.configuration.threads == 12
    assert "1.97 times as fast as the best single process (1 process × 12 threads, 73 s)" in sweep.answer


def test_each_backend_has_knees_of_its_own_and_shares_the_rows_of_one_process() -> None:
    of_ccl = course(oneccl=True).knees[-1]
    assert of_ccl.where == "16 CPUs in all over ccl"
    assert dict(of_ccl.costs) == {1: 73, 2: 53, 4: 42, 8: 35}


def test_gpus_are_a_family_and_eight_are_six_and_a_half_times_as_fast_as_one() -> None:
    rows = tuple(SweepRow(Configuration(n, None, "nccl", True), (run(s),)) for n, s in GPUS.items())
    sweep = Sweep(rows)
    assert sweep.speed_up(rows[-1]).mean == pytest.approx(6.49, abs=0.01)
    (knee,) = sweep.knees
    assert (knee.what, knee.at) == ("GPU", 8)
    assert "8 GPUs" in str(sweep)


def test_a_number_that_is_slower_is_said_to_be_so() -> None:
    knee = Knee("thread", ((1, 100.0), (2, 60.0), (4, 90.0)))
    assert knee.sentence(lambda cost: f"{cost:g} s") == "4 threads are slower than 2 (90 s and 60 s)."


COSTS = st.lists(st.floats(0.01, 1e4), min_size=2, max_size=8)


@given(COSTS)
def test_the_knee_is_the_smallest_number_within_its_tolerance_of_the_best(costs: list[float]) -> None:
    knee = Knee("thread", tuple(enumerate(costs, start=1)))
    assert costs[knee.at - 1] <= min(costs) * (1 + WITHIN)
    assert all(cost > min(costs) * (1 + WITHIN) for cost in costs[: knee.at - 1])
    assert knee.sentence(str)


@given(COSTS, st.floats(0.1, 10))
def test_a_machine_that_is_slower_throughout_changes_neither_speed_ups_nor_knee(
    costs: list[float], by: float
) -> None:
    sweeps = [
        Sweep(tuple(SweepRow(Configuration(1, t), (run(each * times),)) for t, each in enumerate(costs, 1)))
        for times in (1.0, by)
    ]
    for one, other in zip(sweeps[0].rows, sweeps[1].rows, strict=True):
        assert sweeps[0].speed_up(one).mean == pytest.approx(sweeps[1].speed_up(other).mean)
    assert sweeps[0].speed_up(sweeps[0].rows[0]).mean == 1.0
    assert sweeps[0].efficiency(sweeps[0].rows[0]) == 1.0


def test_three_rounds_have_an_interval_of_paired_ratios_and_drift_is_not_in_it() -> None:
    drift = (1.0, 1.5, 2.2)
    halved = [5 * slower * off for slower, off in zip(drift, (1, 1.01, 0.99), strict=True)]
    rows = (
        SweepRow(Configuration(1, 1), tuple(run(10 * slower) for slower in drift)),
        SweepRow(Configuration(2, 1, "gloo"), tuple(map(run, halved))),
    )
    found = Sweep(rows, rounds=3).speed_up(rows[1])
    assert found.is_interval
    assert found.low < 2.0 < found.high
    assert found.high / found.low < 1.1
    assert "3 rounds" in str(Sweep(rows, rounds=3))
    assert "no interval" in str(course())


def test_bounded_runs_compare_rates_and_say_after_how_many_samples() -> None:
    rows = (
        SweepRow(Configuration(1, 1), (run(9.0, 0.5, rate=100, samples=900),)),
        SweepRow(Configuration(2, 1, "gloo"), (run(10.0, 0.6, rate=180, samples=1800),)),
    )
    sweep = Sweep(rows, bound="50 steps", metric="accuracy")
    assert sweep.speed_up(rows[1]).mean == pytest.approx(1.8)
    assert sweep.fastest is rows[1]
    assert "1,800" in str(sweep)
    assert "Each run ended after 50 steps" in str(sweep)


def test_rows_that_cannot_be_stand_in_the_table_with_their_reason_and_everything_is_plain_data() -> None:
    refused = SweepRow(Configuration(4, 8, "gloo"), reason="they need <32> CPUs & there are 2")
    failed = Sweep((refused,))
    assert failed.answer == "Nothing was measured."
    assert (failed.fastest, failed.speed_up(refused), failed.knees) == (None, None, ())
    sweep = Sweep((*course().rows, refused), metric="accuracy")
    assert refused.reason in str(sweep)
    html = sweep._repr_mimebundle_()["text/html"]
    assert "&lt;32&gt; CPUs &amp;" in html
    assert "<svg" not in html
    told = json.loads(json.dumps(sweep.to_dict()))
    assert told["rows"][5]["speed_up"] == pytest.approx(311 / 73)
    assert told["rows"][-1]["seconds"] is None
    assert not [
        value
        for row in told["rows"]
        for value in row.values()
        if isinstance(value, float) and math.isnan(value)
    ]
    assert list(sweep.to_dataframe()["label"])[-1] == "4 × 8"
    assert len(sweep.figure().data) == 2  # times, and the accuracy where it is known


def test_numbers_have_their_nouns() -> None:
    assert [counted(n, what) for n, what in ((1, "process"), (2, "process"), (1, "GPU"), (8, "GPU"), (16, "CPU"))] == [
        "1 process", "2 processes", "1 GPU", "8 GPUs", "16 CPUs",
    ]  # fmt: skip


# --- one way to compare, and no more claimed than the rounds tell ------------------------------------------------------

ROUNDS = {(1, 1): (3.578, 3.814, 3.709), (1, 2): (2.311, 2.7, 2.357), (2, 1): (2.329, 2.198, 2.439)}


def three_rounds(**qualities: float) -> Sweep:
    rows = [
        SweepRow(
            Configuration(*at, "gloo" if at[0] > 1 else ""),
            tuple(run(s, qualities.get(f"q{at[0]}{at[1]}", 0.9), samples=7200) for s in seconds),
        )
        for at, seconds in ROUNDS.items()
    ]
    return Sweep(tuple(rows), rounds=3, metric="accuracy")


def test_a_ratio_is_the_same_number_in_rows_knees_and_answer() -> None:
    sweep = three_rounds()
    one, two_threads, two = sweep.rows
    assert sweep.cost(one) / sweep.cost(two_threads) == pytest.approx(sweep.speed_up(two_threads).mean)
    assert "1.51×" in str(sweep)
    assert "they are 1.51 times as fast as 1" in str(sweep)
    ratio = sweep.speed_up(two).mean / sweep.speed_up(two_threads).mean
    assert sweep.compared(two, two_threads).mean == pytest.approx(ratio)


def test_no_winner_is_claimed_where_the_rounds_tell_none() -> None:
    sweep = three_rounds()
    assert (sweep.winner, len(sweep.tied)) == (None, 2)
    assert "statistically tied" in sweep.answer
    assert "times as fast as the best single" not in sweep.answer
    assert "▲" not in str(sweep)
    assert "2 processes and 1 are statistically tied" in str(sweep)
    assert course().winner is course().fastest or course().winner.configuration.label == "8 × 2"


def test_a_model_that_learnt_much_less_is_said_to_have_in_the_answer_and_marked_in_its_row() -> None:
    sweep = three_rounds(q21=0.086)
    assert "learnt much less than with 1 × 1 (accuracy 0.9) in 2 × 1 (0.086)" in sweep.answer
    assert "0.086 ▼" in str(sweep)
    assert "learnt much less" not in three_rounds(q21=0.88).answer


def test_a_loss_below_zero_is_no_worse_than_itself() -> None:
    rows = [
        SweepRow(Configuration(n, 1), (run(10.0 / n, quality=q),))
        for n, q in ((1, -1.0), (2, -1.2), (3, -0.2))
    ]
    sweep = Sweep(tuple(rows), metric="loss")
    assert [is_much_worse(sweep, row) for row in rows] == [False, False, True]


def test_rows_that_trained_on_different_numbers_of_samples_are_compared_by_rate() -> None:
    rows = (
        SweepRow(Configuration(1, 1), (run(10.0, rate=100, samples=1000),)),
        SweepRow(Configuration(2, 1, "gloo"), (run(12.0, rate=170, samples=2000),)),
    )
    sweep = Sweep(rows)
    assert sweep.fastest is rows[1]
    assert sweep.speed_up(rows[1]).mean == pytest.approx(1.7)
    assert "did not train on the same number of samples" in str(sweep)


def test_remarks_of_an_interrupted_sweep_tell_of_the_rounds_that_are_there() -> None:
    one, two = SweepRow(Configuration(1, 1)), SweepRow(Configuration(2, 1, "gloo"), (run(5.0),))
    told = str(Sweep((one, two), rounds=2, why_ended="Interrupted after 1 of 4 runs"))
    assert "One round gives no interval" in told
    assert "against 2 processes × 1 thread over gloo, as 1 process × 1 thread has no time" in told
    one = SweepRow(Configuration(1, 1), (run(9.0), run(9.1)))
    assert "1 to 2 rounds" in str(Sweep((one, two), rounds=3))
