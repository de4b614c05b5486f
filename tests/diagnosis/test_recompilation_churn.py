"""A function that is compiled again and again is found, with the guard that failed and what helps against it."""

from __future__ import annotations

from functools import cache

import pytest

from accel.diagnosis.recompilation_churn import OTHERWISE, recompilation_churn
from accel.profiling.compilation import Compilation, Recompilation
from tests.diagnosis.making import by_hand

SIZE = "tensor 'x' size mismatch at index 0. expected 8, actual 7"


def again(count, reason=SIZE, **more):
    made = Compilation(count + 1, 0.05, (Recompilation("forward", reason, "<cell>", 4, count),), **more)
    return by_hand({"forward": 1.0}, compilation=made)


@cache
def faulty():
    return again(5)


@cache
def sound():
    return again(1)


def test_the_guard_and_its_line_are_evidence():
    finding = recompilation_churn(faulty())
    assert finding.evidence[0] == f"forward() at line 4 of <cell>, 5 times: {SIZE}"
    assert finding.line == 4
    assert finding.details["recompilations"] == 5


@pytest.mark.parametrize(("reason", "helps"), [
    (SIZE, "mark_dynamic"), ("L['self'].training == True", "one function for training and another"),
    ("L['i'] == 3", OTHERWISE), ("tensor 'x' dtype mismatch. expected Float, actual Double", "one dtype"),
])  # fmt: skip
def test_the_remedy_is_for_the_guard_that_failed(reason, helps):
    assert helps in recompilation_churn(again(5, reason)).remedy


def test_giving_up_is_told_however_few_recompilations_there_were():
    assert "gave up" in recompilation_churn(again(1, reached_limit=True)).what


def test_a_model_that_was_compiled_once_or_never_is_not_found():
    assert recompilation_churn(by_hand({"forward": 1.0})) is None
    assert recompilation_churn(by_hand({"forward": 1.0}, compilation=Compilation(1, 2.0))) is None
