"""Amdahl's law with a range: the expected figure lies in the interval, whatever the parts."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.diagnosis.predicting import (
    GONE,
    LEAST_UNMARKED,
    Part,
    amdahl,
    share_without_marks,
    without_marks,
)
from accel.profiling.findings import Prediction
from tests.diagnosis.making import by_hand

factors = st.lists(st.floats(0.2, 50), min_size=3, max_size=3).map(sorted)


def test_half_of_the_step_at_twice_the_speed_saves_a_quarter():
    assert amdahl("", Part(0.5, 2.0, 2.0, 2.0)).ratio == pytest.approx(1 / 0.75)


def test_what_vanishes_leaves_the_rest():
    prediction = amdahl("data, 40 %", Part(0.4, 1.0, 2.0, GONE))
    assert prediction.low == 1.0
    assert prediction.high == pytest.approx(1 / (1 - 1.1 * 0.4))  # a share may be off by a tenth
    assert prediction.basis == "Amdahl: data, 40 %"


def test_a_step_that_vanishes_entirely_has_a_finite_speed_up():
    assert math.isfinite(amdahl("", Part(1.0, 1.0, 2.0, GONE)).high)


def test_nothing_to_speed_up_is_no_speed_up():
    prediction = amdahl("", Part(0.0, 1.0, 2.0, GONE))
    assert (prediction.ratio, prediction.low, prediction.high) == (1.0, 1.0, 1.0)


@given(st.lists(st.tuples(st.floats(0.0, 0.33), factors), max_size=3))
def test_the_expected_speed_up_lies_in_its_interval(parts):
    prediction = amdahl("", *(Part(share, *speeds) for share, speeds in parts))
    assert 0 < prediction.low <= prediction.ratio * (1 + 1e-9)
    assert prediction.ratio <= prediction.high * (1 + 1e-9)
    assert math.isfinite(prediction.high)


def test_a_bound_holds_for_all_three():
    assert Part(0.5, 1.0, 2.0, GONE).bounded(1.5) == Part(0.5, 1.0, 1.5, 1.5)


@pytest.mark.parametrize("share", [0.5, 0.8, 0.95, 0.99])
def test_what_is_nearly_all_of_the_step_is_not_predicted_to_be_all_of_it(share):
    prediction = amdahl("", Part(share, 2.0, GONE, GONE))
    assert prediction.ratio == pytest.approx(1 / (1 - share))
    assert prediction.high == pytest.approx(1 / (1 - share) / 0.9)


@pytest.mark.parametrize(("step_ms", "most"), [(1000.0, 1.002), (2.0, 1.2), (0.1, 2.0)])
def test_hooks_take_a_larger_part_of_a_shorter_step(step_ms, most):
    evidence = by_hand({"data": 0.5, "forward": 0.2, "backward": 0.2, "optimizer": 0.1}, step_ms=step_ms)
    unmarked = share_without_marks(evidence)
    predicted = amdahl("", Part(0.5, 1.0, 2.0, GONE))
    corrected = without_marks(predicted, unmarked)
    assert LEAST_UNMARKED <= unmarked < 1
    assert (corrected.ratio, corrected.low) == (predicted.ratio, predicted.low)
    assert corrected.high / predicted.high > 1
    assert 1 / unmarked < most or unmarked == LEAST_UNMARKED


@pytest.mark.parametrize(
    "predicted",
    [None, Prediction(2.0, 1.5, 4.0, "for 4 times the samples"), amdahl("", Part(0.5, 1, 2, 4), of="cell")],
)
def test_what_no_share_of_a_step_was_taken_for_keeps_its_upper_end(predicted):
    assert without_marks(predicted, 0.8) == predicted
