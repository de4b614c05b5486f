"""Units, plurals and aligned columns: what every text of the project is made of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from accel.units import counted, in_number, milliseconds, percent, size, table

PACKAGES = [Path(__file__).parents[1] / folder for folder in ("workbench/accel", "widgets/accel_widgets")]


@pytest.mark.parametrize(
    ("share", "shown"),
    [
        (0.38, "38 %"),
        (0.0123, "1.2 %"),
        (0.0949, "9.5 %"),
        (0.095, "10 %"),
        (1.0, "100 %"),
        (float("nan"), "–"),
    ],
)
def test_a_share_has_a_digit_more_where_it_is_small(share, shown):
    assert percent(share) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(0.0052, "5.2 µs"), (12.345, "12.3 ms"), (99.6, "100 ms"), (9999.0, "9999 ms"), (12_345.0, "12.3 s")],
)
def test_a_time_is_in_the_unit_it_reads_best_in(value, shown):
    assert milliseconds(value) == shown


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (12, "12 B"),
        (1000, "0.977 KiB"),
        (2**20, "1 MiB"),
        (1023 * 2**20, "0.999 GiB"),
        (4 * 10**12, "3.64 TiB"),
    ],
)
def test_a_size_is_binary_and_never_in_powers_of_ten(count, shown):
    assert size(count) == shown


def test_a_noun_takes_the_number_of_its_count():
    assert counted(1, "step under torch.profiler") == "1 step under torch.profiler"
    assert counted(2, "step under torch.profiler") == "2 steps under torch.profiler"
    assert counted(0, "warm-up batch") == "0 warm-up batches"
    assert [in_number(2, noun) for noun in ("process", "CPU", "rank")] == ["processes", "CPUs", "ranks"]


def test_columns_are_even_and_numbers_stand_right():
    lines = table([("plan", "ms", "why"), ("autocast", "7", ""), ("a", "12.5", "x")], numeric=[1])
    assert lines == ["plan        ms  why", "autocast     7", "a         12.5  x"]
    assert table([]) == []


def test_no_other_file_formats_a_percentage():
    by_hand = re.compile(r"\{[^{}]*:[^{}]*%\}|f\} %")
    found = [
        str(path.relative_to(folder))
        for folder in PACKAGES
        for path in folder.rglob("*.py")
        if path.name != "units.py"
        and any(by_hand.search(line) for line in path.read_text("utf-8").splitlines() if "style=" not in line)
    ]
    assert not found
