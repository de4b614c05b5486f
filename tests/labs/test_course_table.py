"""The benchmark of the course's tables: what needs no training is right, and what cannot be measured here has a reason."""

from __future__ import annotations

import pytest
from benchmarks.course import as_table
from benchmarks.course_experiments import QUICK, parameters, topology


@pytest.mark.parametrize("experiment", [parameters, topology], ids=lambda experiment: experiment.__name__)
def test_a_row_has_a_figure_or_the_reason_why_it_has_none(experiment):
    rows = list(experiment(QUICK))
    assert rows
    assert all(bool(row.here) != bool(row.why_not) for row in rows)
    assert as_table(rows).count("\n") == len(rows) + 1


def test_numbers_of_parameters_are_those_of_the_course():
    assert [row.here for row in parameters(QUICK)] == [row.reference for row in parameters(QUICK)]


def test_the_recorded_matrix_gives_a_pair_with_two_links():
    assert "GPU0 and GPU3 share two NVLinks" in next(row.here for row in topology(QUICK) if row.here)
