"""What every rule promises, asked of the whole registry.

Each rule has `tests/diagnosis/test_<rule>.py` with two functions: `faulty()` gives Evidence with the fault, `sound()`
Evidence without it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import pytest

from accel import diagnosis
from accel.diagnosis import HYGIENE, RULES, diagnose
from accel.plans import Plan
from accel.profiling.findings import Prediction

pytestmark = pytest.mark.timeout(900)  # on a busy machine a cell is profiled again and again
RULE_NAMES = [rule.__name__ for rule in RULES]
each_rule = pytest.mark.parametrize("rule", RULES, ids=RULE_NAMES)


def situations(rule):
    return import_module(f"tests.diagnosis.test_{rule.__name__}")


def test_each_rule_is_in_a_file_of_its_own_name_and_only_once():
    assert len(set(RULE_NAMES)) == len(RULE_NAMES)
    assert [rule.__module__ for rule in RULES] == [f"accel.diagnosis.{name}" for name in RULE_NAMES]
    assert set(RULE_NAMES) >= HYGIENE


def test_every_file_of_a_rule_is_in_rules():
    folder = Path(diagnosis.__file__).parent
    rules = {
        path.stem
        for path in folder.glob("*.py")
        if f"def {path.stem}(evidence: Evidence)" in path.read_text()
    }
    assert rules == set(RULE_NAMES)


@each_rule
def test_the_fault_is_found_where_it_is_and_only_there(rule):
    assert rule(situations(rule).faulty()).kind == rule.__name__
    assert rule(situations(rule).sound()) is None


@each_rule
def test_a_finding_has_all_that_a_reader_needs(rule):
    finding = rule(situations(rule).faulty())
    assert finding.title
    assert finding.what.endswith((".", "!"))
    assert finding.evidence
    assert finding.wrong_when
    assert 0 <= finding.share <= 1
    assert finding.suggests or finding.remedy
    json.dumps(asdict(finding))


@each_rule
def test_every_suggestion_is_a_plan_of_the_catalogue(rule):
    for suggestion in rule(situations(rule).faulty()).suggests:
        assert str(Plan.parse(suggestion))


@each_rule
def test_a_prediction_lies_in_its_interval_and_says_what_it_rests_on(rule):
    prediction = rule(situations(rule).faulty()).prediction
    if prediction is not None:
        assert 0 < prediction.low <= prediction.ratio <= prediction.high <= 1000
        assert prediction.basis


@each_rule
@pytest.mark.parametrize("share", [0.0, 0.0299, 0.03, 0.5])
def test_a_small_share_is_not_reported_unless_it_is_hygiene(rule, share):
    finding, found = told(rule, share=share, prediction=None)
    assert found == ((finding,) if share >= 0.03 or rule.__name__ in HYGIENE else ())


@each_rule
def test_a_change_that_may_as_well_cost_time_is_not_reported_unless_it_is_hygiene(rule):
    finding, found = told(rule, share=0.5, prediction=Prediction(1.05, 0.63, 1.07))
    assert found == ((replace(finding, prediction=None),) if rule.__name__ in HYGIENE else ())


def told(rule, **changed):
    """The rule's finding with something changed, and what becomes of it."""
    evidence = situations(rule).faulty()
    finding = replace(rule(evidence), **changed)
    found = diagnose(
        evidence.profile, evidence.workload, evidence.machine, live=evidence.live, rules=(lambda _: finding,)
    )
    return replace(finding, filename=evidence.workload.filename if finding.line else ""), found
