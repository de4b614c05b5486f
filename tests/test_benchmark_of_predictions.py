"""Cells for every rule that predicts a gain on a CPU; figures of those that ranges were fitted to, and of others, are apart."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import replace

import pytest
from benchmarks.faulty_cells import CASES
from benchmarks.predictions import Measured, below_1, figures_of, notes_on_load

from accel.diagnosis import RULES

PREDICT_NOTHING = {"graph_kept", "gradients_never_cleared"}
OF_A_GPU = {"hidden_synchronisation"}

RIGHT = Measured(
    "a", "input_bound", "edit", 0.4, 1.5, 1.0, 2.0, 1.5, 1.4, 1.6, "faster", 10.0, 20, is_fitted=True
)
WRONG = replace(
    RIGHT, case="b", predicted_high=4.0, measured=0.75, measured_low=0.7, measured_high=0.8, is_fitted=False
)


def test_a_wrong_prediction_for_a_held_out_cell_is_not_hidden_by_fitted_ones():
    figures = figures_of([RIGHT, RIGHT, RIGHT, WRONG])
    assert (figures["cases"], figures["fitted_cases"], figures["held_out_cases"]) == (4, 3, 1)
    assert (figures["inside"], figures["fitted_inside"], figures["held_out_inside"]) == (3, 3, 0)
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


def test_each_rule_that_predicts_a_gain_on_a_cpu_has_two_cells_and_more():
    cells = Counter(case.rule for case in CASES)
    assert set(cells) == {rule.__name__ for rule in RULES} - PREDICT_NOTHING - OF_A_GPU
    assert min(cells.values()) >= 2
    assert len(CASES) >= 30


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_cell_and_its_remedy_are_python_and_differ(case):
    for text in (case.setup, case.cell, case.mended, case.mended_setup):
        ast.parse(text)
    as_it_was, after = (case.setup, case.cell), (case.mended_setup or case.setup, case.mended)
    assert after != as_it_was


def test_a_finding_that_predicts_no_gain_is_counted_whichever_part_of_it_says_so():
    predicted = [
        {"ratio": 1.3, "low": 1.1, "high": 1.6}, {"ratio": 0.9, "low": 0.8, "high": 1.4},
        {"ratio": 1.05, "low": 0.63, "high": 1.07}, {"ratio": 1.1, "low": 0.95, "high": 1.3},
    ]  # fmt: skip
    assert below_1(predicted) == {"findings": 4, "predicted_below_1": 2}
    assert below_1([]) == {"findings": 0, "predicted_below_1": 0}


def test_a_row_comes_back_from_its_file_as_it_was():
    assert Measured.from_dict(WRONG.to_dict()) == WRONG


def test_notes_tell_of_other_work():
    assert notes_on_load([0.9, 1.0, 1.1], 2) == [
        "load average before the cases: median 1.0, at most 1.1, on 2 cores"
    ]
    assert "other work took part" in notes_on_load([0.9, 1.0, 6.8], 2)[1]
    assert notes_on_load([], 2) == ["the load of the machine is not known"]
