"""Which configurations a sweep has, those that cannot be with the reason; and a sweep that is ended or fails keeps its rows."""

from __future__ import annotations

import random

import pytest

from accel.distributed.sweep.sweep_plan import SweepWish, counts, gpus_of, planned_rows
from accel.distributed.sweep.sweep_run import SweepRun
from accel.errors import AccelError, RankError, UnknownName
from accel.machine.affinity import allocate
from accel.measuring.sweep_row import Configuration, SweepRow, SweptRun
from tests.distributed.test_rank_devices import machine_with


def labels(rows) -> list[str]:
    return [row.configuration.label for row in rows]


def anything_fits(processes: int, threads: int) -> None:
    assert processes * threads <= 16


def test_every_number_of_processes_goes_with_every_number_of_threads() -> None:
    rows = planned_rows(SweepWish(processes=(2, 1), threads=(4, 1)), fits=anything_fits)
    assert labels(rows) == ["1 × 1", "1 × 4", "2 × 1", "2 × 4"]
    assert [row.configuration.backend for row in rows] == ["", "", "gloo", "gloo"]
    assert not any(row.reason for row in rows)


def test_without_numbers_there_are_the_tables_of_the_course() -> None:
    rows = planned_rows(SweepWish(), usable=16, fits=anything_fits)
    assert labels(rows) == ["1 × 1", "1 × 2", "1 × 4", "1 × 8", "1 × 16", "2 × 8", "4 × 4", "8 × 2", "16 × 1"]
    assert labels(planned_rows(SweepWish(threads=(1, 12)), usable=16, fits=anything_fits)) == [
        "1 × 1",
        "1 × 12",
    ]
    assert labels(planned_rows(SweepWish(processes=(1, 4)), usable=12, fits=anything_fits)) == [
        "1 × 12",
        "4 × 3",
    ]


def test_what_needs_more_cpus_than_there_are_is_a_row_with_the_reason() -> None:
    rows = planned_rows(SweepWish(processes=(1, 64), threads=(1, 64)), fits=allocate)
    assert not rows[0].reason
    assert "they need 4,096" in rows[-1].reason or "they need 4096" in rows[-1].reason


def test_one_process_exchanges_nothing_and_a_backend_that_is_not_there_says_why() -> None:
    wish = SweepWish(processes=(1, 2), threads=(1,), backends=("gloo", "nccl"))
    rows = planned_rows(wish, fits=anything_fits, cuda=machine_with(0))
    assert [row.configuration.backend for row in rows] == ["", "gloo", "nccl"]
    assert [bool(row.reason) for row in rows] == [False, False, True]
    assert "torch sees no CUDA GPU here" in rows[2].reason


def test_gpus_are_one_a_process_and_those_that_are_not_there_say_so() -> None:
    rows = planned_rows(SweepWish(gpus=(1, 2, 4)), cuda=machine_with(2))
    assert labels(rows) == ["1 GPU", "2 GPUs", "4 GPUs"]
    assert [row.reason for row in rows] == ["", "", "there are 2 that this process may use"]
    assert gpus_of(rows[1].configuration, machine_with(4)) == "2,3"  # those that are joined best
    without = planned_rows(SweepWish(gpus=(2,)), cuda=machine_with(2, nccl=False))
    assert "without NCCL" in without[0].reason
    over_gloo = planned_rows(SweepWish(gpus=(2,), backends=("gloo",)), cuda=machine_with(2, nccl=False))
    assert over_gloo[0].reason == ""
    none = planned_rows(SweepWish(gpus=(1,)), cuda=machine_with(0))
    assert none[0].reason == "there are none that this process may use"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"gpus": (1,), "threads": (1,)}, "one process a GPU"),
        ({"processes": (0,)}, "whole number from 1 on"),
        ({"rounds": 0}, "a number of rounds is a whole number"),
        ({"gpus": (0,)}, "a number of GPUs is a whole number"),
        ({"steps": 0}, "at least one step"),
        ({"budget_s": 0.0}, "above 0"),
        ({"batch": "both"}, "no value of --batch"),
        ({"backends": ("glo",)}, "Did you mean 'gloo'"),
    ],
)
def test_wishes_that_make_no_sense_are_refused(asked, words: str) -> None:
    with pytest.raises((AccelError, UnknownName), match=words):
        SweepWish(**asked)


def test_numbers_are_listed_or_from_one_to_another() -> None:
    assert counts("1, 2,4") == (1, 2, 4)
    assert counts("1..4,8") == (1, 2, 3, 4, 8)
    assert counts((3, 5)) == (3, 5)
    assert counts(2) == (2,)
    for wrong in ("1..", "..4", "4..1", "two", "-1", "1.5", "²"):
        with pytest.raises(AccelError, match="no number from 1 on"):
            counts(wrong)


# --- rows that fill ---------------------------------------------------------------------------------------------------

ROWS = tuple(SweepRow(Configuration(1, threads)) for threads in (1, 2, 3))


def took(configuration: Configuration) -> SweptRun:
    return SweptRun(6.0 / configuration.threads, 10, 1, 1.0, 0.0)


def test_each_round_runs_every_row_once_and_the_table_is_shown_as_it_grows() -> None:
    ran, shown = [], []

    def measure(configuration: Configuration) -> SweptRun:
        ran.append(configuration.threads)
        return took(configuration)

    sweep = SweepRun(
        (*ROWS, SweepRow(Configuration(9, 9), reason="too many")), measure, rounds=4, chance=random.Random(3),
        show=lambda rows, now: shown.append((sum(len(row.runs) for row in rows), now)),
    )  # fmt: skip
    rows, why_ended = sweep.go()
    assert why_ended == ""
    rounds = [ran[start : start + 3] for start in range(0, 12, 3)]
    assert all(sorted(each) == [1, 2, 3] for each in rounds)
    assert len(set(map(tuple, rounds))) > 1  # an order of its own
    assert [len(row.runs) for row in rows] == [4, 4, 4, 0]
    assert [filled for filled, _ in shown] == list(range(12))
    assert shown[0][1].startswith("Run 1 of 12, round 1: 1 process × ")


def test_ctrl_c_keeps_the_rows_that_are_there() -> None:
    def measure(configuration: Configuration) -> SweptRun:
        if configuration.threads == 3:
            raise KeyboardInterrupt
        return took(configuration)

    rows, why_ended = SweepRun(ROWS, measure).go()
    assert [row.seconds for row in rows[:2]] == [6.0, 3.0]
    assert (rows[2].runs, rows[2].reason) == ((), "")
    assert why_ended == "Interrupted after 2 of 3 runs; what was measured until then stays."
    with pytest.raises(KeyboardInterrupt):  # nothing was measured: there is nothing to keep
        SweepRun(ROWS[2:], measure).go()


def test_a_row_that_fails_keeps_the_reason_and_the_others_go_on() -> None:
    ran = []

    def measure(configuration: Configuration) -> SweptRun:
        ran.append(configuration.threads)
        if configuration.threads == 2:
            raise RankError(1, "a run", because="it was killed (SIGKILL)", do="Run it again.")
        return took(configuration)

    rows, _ = SweepRun(ROWS, measure, rounds=2).go()
    assert ran.count(2) == 1
    assert rows[1].reason == "failed: it was killed (SIGKILL)"
    assert [len(row.runs) for row in rows] == [2, 0, 2]
    with pytest.raises(RankError, match="SIGKILL"):
        SweepRun(ROWS[1:2], measure).go()
