"""Numbers that no machine takes are refused at once, by every door."""

from __future__ import annotations

import math

import pytest

from accel.bounds import check_count, check_ranks, check_samples, check_seconds, check_steps, checked_size
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.sweep.sweep_plan import SweepWish, counts
from accel.errors import AccelError

HUGE = 99999999999999999999


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, 1e-320, 1e20, 10**400, "60", True])
def test_a_time_that_no_clock_takes_is_refused(seconds: object) -> None:
    with pytest.raises(AccelError, match=r"a time is .* 60\."):
        check_seconds("--timeout-s", seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [None, 0.01, 60, 240.0, 1e6])
def test_a_time_that_makes_sense_is_taken(seconds: float | None) -> None:
    check_seconds("--timeout-s", seconds)


@pytest.mark.parametrize(
    ("size", "count"),
    [("2GB", 2 * 10**9), ("1.5 gib", 1610612736), ("512M", 1 << 29), (1024, 1024), (None, None)],
)
def test_a_size_of_memory_is_read_in_powers_of_ten_or_of_two(size: object, count: int | None) -> None:
    assert checked_size("--fit", size) == count  # type: ignore[arg-type]


@pytest.mark.parametrize("size", ["much", "-1GB", "2 GB/s", "", "0", 0, -3, True, math.nan, math.inf])
def test_what_is_no_size_of_memory_is_refused(size: object) -> None:
    with pytest.raises(AccelError, match="2GiB"):
        checked_size("--fit", size)  # type: ignore[arg-type]


@pytest.mark.parametrize("check", [check_steps, check_samples, check_count, check_ranks])
@pytest.mark.parametrize("number", [0, -3, HUGE, 10**400, 2.0, True, math.nan])
def test_a_number_that_is_no_count_or_beyond_any_machine_is_refused_in_a_short_sentence(
    check: object, number: object
) -> None:
    with pytest.raises(AccelError) as raised:
        check(f"-n {number}" if number != 10**400 else "-n 1" + 400 * "0", number)  # type: ignore[operator]
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    "words", ["1..99999999999999999999", "9" * 5000, "1,2,x", "4..2", "1.." + "9" * 5000]
)
def test_numbers_of_a_sweep_that_make_no_list_are_refused(words: str) -> None:
    with pytest.raises(AccelError) as raised:
        counts(words)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    "options",
    [
        {"timeout_s": 1e-320}, {"timeout_s": 1e20}, {"every": HUGE}, {"max_restarts": HUGE}, {"bucket_mb": 1e308},
        {"bucket_mb": math.nan},
    ],
)  # fmt: skip
def test_options_of_a_run_have_bounds(options: dict[str, object]) -> None:
    with pytest.raises(AccelError):
        RunOptions(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "wish",
    [{"processes": (HUGE,)}, {"threads": (HUGE,)}, {"rounds": HUGE}, {"steps": HUGE}, {"budget_s": 1e20}],
)
def test_a_sweep_has_bounds(wish: dict[str, object]) -> None:
    with pytest.raises(AccelError):
        SweepWish(**wish)  # type: ignore[arg-type]
