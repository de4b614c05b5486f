"""Figures of predictions are told apart: cells that ranges were fitted to, and cells that they were not."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.faulty_cells import CASES
from benchmarks.predictions import Measured, figures_of, notes_on_load

RIGHT = Measured(
    "a", "input_bound", "edit", 0.4, 1.5, 1.0, 2.0, 1.5, 1.4, 1.6, "faster", 10.0, 20, is_fitted=True
)
WRONG = replace(
    RIGHT, case="b", predicted_high=4.0, measured=0.75, measured_low=0.7, measured_high=0.8, is_fitted=False
)


def test_a_wrong_prediction_for_a_held_out_cell_is_not_hidden_by_fitted_ones():
    figures = figures_of([RIGHT, RIGHT, RIGHT, WRONG])
    assert (figures["cases"], figures["fitted_cases"], figures["held_out_cases"]) == (4, 3, 1)
    assert (figures["inside_share"], figures["fitted_inside_share"], figures["held_out_inside_share"]) == (
        0.75,
        1,
        0,
    )
    assert (figures["fitted_overlap_share"], figures["held_out_overlap_share"]) == (1, 0)
    assert (figures["fitted_median_error"], figures["held_out_median_error"]) == (0, pytest.approx(1.0))
    assert (figures["fitted_median_interval_width"], figures["held_out_median_interval_width"]) == (2, 4)


def test_a_group_without_a_case_has_no_figures_but_its_count():
    figures = figures_of([RIGHT])
    assert figures["held_out_cases"] == 0
    assert "held_out_inside_share" not in figures


def test_the_catalogue_has_cells_of_both_kinds_and_each_name_once():
    assert {case.is_fitted for case in CASES} == {True, False}
    assert len({case.name for case in CASES}) == len(CASES)


def test_notes_tell_of_other_work():
    assert notes_on_load([0.9, 1.0, 1.1], 2) == [
        "load average before the cases: median 1.0, at most 1.1, on 2 cores"
    ]
    assert "other work took part" in notes_on_load([0.9, 1.0, 6.8], 2)[1]
    assert notes_on_load([], 2) == ["the load of the machine is not known"]
