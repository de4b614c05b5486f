"""The same cell on other days and with other versions, and the history as a table."""

from __future__ import annotations

import csv
import io
from dataclasses import replace

from accel.history import PastTrials
from accel.history.cell_over_time import cell_over_time, in_a_sentence
from tests.history.test_history_store import TRIAL

OLD, NEW = "python 3.11.7, torch 2.14.0", "python 3.11.7, torch 2.14.1"


def row(day, versions, step_ms, **more):
    return replace(
        TRIAL, time=f"{day}T10:00:00+01:00", versions=versions, baseline_ms=step_ms, live="",
        where_measured="as the notebook runs", **more,
    )  # fmt: skip


def sentence(*rows):
    return in_a_sentence(cell_over_time(rows, workload=TRIAL.workload, machine=TRIAL.machine))


def test_a_cell_that_became_faster_is_told_with_days_and_versions():
    told = sentence(row("2026-11-19", OLD, 31.0), row("2026-11-26", NEW, 24.0))
    assert told == (
        f"This cell: 31 ms a step on 2026-11-19 ({OLD}), 24 ms on 2026-11-26 ({NEW}), 1.3 times as fast."
    )


def test_a_day_counts_by_its_median_and_small_changes_are_none():
    told = sentence(
        row("2026-11-19", OLD, 30.0),
        row("2026-11-19", OLD, 90.0),
        row("2026-11-19", OLD, 31.0),
        row("2026-11-26", OLD, 30.0),
    )
    assert told.endswith("about the same.")


def test_other_cells_other_machines_and_steady_processes_do_not_count():
    first = row("2026-11-19", OLD, 31.0)
    others = [
        replace(first, workload="other"), replace(first, machine="other"), replace(first, where_measured="steady allocator"),
        replace(first, live="channels_last"),
    ]  # fmt: skip
    assert sentence(first) == ""
    assert sentence(*(replace(each, time="2026-11-20T10:00:00+01:00") for each in others), first) == ""


def test_the_table_for_a_spreadsheet_has_a_line_a_plan_and_what_was_not_measured_is_empty():
    past = PastTrials((replace(TRIAL, plan='autocast(dtype="bf16")'), TRIAL), "f", as_csv=True)
    rows = list(csv.DictReader(io.StringIO(str(past))))
    assert [each["number"] for each in rows] == ["2", "1"]
    assert rows[0]["plan"] == 'autocast(dtype="bf16")'
    assert rows[0]["seeds"] == ""
