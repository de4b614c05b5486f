"""Validation that records gradients is found with its line; the same under no_grad is not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from accel.diagnosis.gradients_in_validation import gradients_in_validation
from tests.diagnosis.making import TRAIN, real

VALIDATE = "for _ in range(6):\n    criterion(model(x), y)\n"


@cache
def faulty():
    return real(TRAIN + VALIDATE)


@cache
def sound():
    return real(TRAIN + "with torch.no_grad():\n    " + VALIDATE.replace("\n", "\n    "))


def test_the_remedy_names_the_line_of_the_cell():
    finding = gradients_in_validation(faulty())
    line = faulty().workload.source.splitlines().index("    criterion(model(x), y)") + 1
    assert finding.line == line
    assert f"line {line}" in finding.remedy
    assert finding.details["calls"] == 6


def test_in_a_function_of_an_earlier_cell_the_function_is_named():
    setup = "def evaluate():\n    for _ in range(6):\n        criterion(model(x), y)\n"
    finding = gradients_in_validation(real(TRAIN + "evaluate()", setup))
    assert finding.line == 0
    assert "evaluate()" in finding.remedy


def test_eval_mode_alone_does_not_help_and_the_finding_says_so():
    finding = gradients_in_validation(real(TRAIN + "model.eval()\n" + VALIDATE))
    assert "eval mode, which does not switch gradients off" in finding.what
    assert finding.suggests == ("no_grad_validation",)


def test_validation_in_training_mode_is_an_edit():
    finding = gradients_in_validation(faulty())
    assert (finding.suggests, finding.prediction.of) == ((), "cell")


def test_where_training_runs_in_eval_mode_too_it_is_an_edit():
    assert gradients_in_validation(real("model.eval()\n" + TRAIN + VALIDATE)).suggests == ()


def test_while_no_grad_validation_is_kept_there_is_nothing_to_say():
    evidence = real(TRAIN + "model.eval()\n" + VALIDATE)
    assert gradients_in_validation(replace(evidence, live=("no_grad_validation",))) is None


def test_a_cell_that_only_runs_forward_is_found_too():
    assert gradients_in_validation(real("for _ in range(12):\n    model(x)")).details["calls"] == 12


def test_frozen_models_record_nothing_and_are_not_found():
    assert gradients_in_validation(real(TRAIN + VALIDATE.replace("model", "teacher"), TEACHER)) is None


TEACHER = "import copy; teacher = copy.deepcopy(model).requires_grad_(False)"


def test_what_it_costs_is_less_than_the_time_of_the_forward_passes():
    finding = gradients_in_validation(faulty())
    assert 0 < finding.share < finding.details["forward_share_of_cell"] < 1
