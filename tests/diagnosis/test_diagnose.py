"""A profile shows the findings that are worth a change, the one with the largest predicted gain first."""

from __future__ import annotations

import pytest

from accel.diagnosis import diagnose
from accel.profiling.findings import Finding, Prediction
from tests.diagnosis.making import by_hand


def finding(kind="rule", share=0.5, prediction=None):
    return Finding(kind, "t", "w.", share, ("e",), prediction, (), "Do it.", "never")


def shown(*findings):
    """The findings that a profile shows if the rules find these."""
    evidence = by_hand({"forward": 1.0})
    rules = [lambda _, each=each: each for each in findings]
    return diagnose(evidence.profile, evidence.workload, evidence.machine, rules=rules)


def told(*findings):
    """The kinds of those."""
    return [each.kind for each in shown(*findings)]


@pytest.mark.parametrize(
    ("predicted", "is_told"),
    [
        ((0.82, 0.63, 1.07), False),
        ((1.05, 0.63, 1.07), False),  # most of the interval is a loss
        ((1.01, 1.0, 1.5), False),
        ((1.3, 0.0, 3.0), False),  # it may take forever
        ((0.9, 0.8, 9.0), False),
        ((1.03, 1.0, 1.06), True),
        ((1.2, 0.9, 2.0), True),
        ((4.0, 1.5, 40.0), True),
    ],
)
@pytest.mark.parametrize("of", ["step", "cell"])
def test_what_is_not_expected_to_gain_is_not_told(predicted, of, is_told):
    assert told(finding(prediction=Prediction(*predicted, of=of))) == ["rule"] * is_told


def test_where_nobody_knows_the_gain_the_share_is_enough():
    assert told(finding(share=0.03)) == ["rule"]
    assert told(finding(share=0.02)) == []


def test_a_fault_is_told_however_little_it_gains():
    assert told(finding("gradients_never_cleared", 0.0, Prediction(0.9, 0.8, 1.0))) == [
        "gradients_never_cleared"
    ]


@pytest.mark.parametrize(
    ("predicted", "is_shown"), [((0.9, 0.8, 1.0), False), ((1.01, 1.0, 1.02), False), ((1.2, 1.1, 1.3), True)]
)
@pytest.mark.parametrize("kind", ["gradients_in_validation", "profiling_leftovers"])
def test_a_fault_is_told_with_its_prediction_only_where_that_is_a_gain(kind, predicted, is_shown):
    prediction = Prediction(*predicted)
    (fault,) = shown(finding(kind, 0.05, prediction))
    assert (fault.prediction is not None) == is_shown
    assert bool(fault.predicted) == is_shown


def test_the_largest_gain_comes_first_and_not_the_largest_share():
    longest = finding("longest", 0.9, Prediction(1.1, 1.05, 1.2))
    unknown = finding("unknown", 0.4)  # 1.25
    best = finding("best", 0.2, Prediction(1.4, 1.1, 1.6))
    of_cell = finding("of cell", 0.3, Prediction(5.0, 4.0, 6.0, of="cell"))  # 1.18
    assert told(longest, unknown, best, of_cell) == ["best", "unknown", "of cell", "longest"]
