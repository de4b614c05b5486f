"""A function that is compiled again and again is found, with the guard that failed and what helps against it."""

from __future__ import annotations

from functools import cache

import pytest

from accel.diagnosis.recompilation_churn import OTHERWISE, recompilation_churn
from accel.profiling.compilation import Compilation, Recompilation
from tests.diagnosis.making import by_hand, real

SIZE = "tensor 'x' size mismatch at index 0. expected 8, actual 7"


def again(count, reason=SIZE, **more):
    made = Compilation(count + 1, 0.05, (Recompilation("forward", reason, "<cell>", 4, count),), **more)
    return by_hand({"forward": 1.0}, compilation=made)


# The backend that runs graphs as they are needs no C++ compiler.
COMPILED = """
torch._dynamo.reset()
@torch.compile(backend="eager", dynamic={dynamic})
def forward(x):
    return model(x)
"""
SIZES = """
for number in range(14):
    optimizer.zero_grad()
    size = 4 + number % 5
    criterion(forward(x[:size]), y[:size]).backward()
    optimizer.step()
"""


@cache
def faulty():
    return real(SIZES, COMPILED.format(dynamic=False), timed=False)


@cache
def sound():
    return real(SIZES, COMPILED.format(dynamic=True), timed=False)


def test_the_guard_and_its_line_are_evidence():
    finding = recompilation_churn(again(5))
    assert finding.evidence[0] == f"forward() at cell, line 4, 5 times: {SIZE}"
    assert finding.line == 4
    assert finding.details["recompilations"] == 5


def test_batches_of_many_sizes_compile_anew_for_each_unless_sizes_may_vary():
    finding = recompilation_churn(faulty())
    assert finding.details["recompilations"] == 4
    assert "size mismatch" in finding.evidence[0]
    assert "mark_dynamic" in finding.remedy
    assert 0 < finding.share < 1
    assert sound().profile.compilation.graphs == 1


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
