"""A profile gets its findings with it; suggestions that cannot work here are taken out, with the reason."""

from __future__ import annotations

import pytest

from accel.errors import AccelError
from accel.plans import Plan
from accel.profiling.findings import Finding, Prediction
from accel.workbench import Workbench, profile_findings
from tests.diagnosis.making import MANY_SMALL_LAYERS, TRAIN, notebook, real
from tests.threads import threads


@pytest.fixture(autouse=True)
def small_operations_on_one_thread():
    with threads(1):
        yield


@pytest.fixture
def workbench():
    workbench = Workbench(notebook(MANY_SMALL_LAYERS), spare_workers=0)
    yield workbench
    workbench.close()


def kinds(profile):
    return [finding.kind for finding in profile.findings]


def test_a_profile_carries_what_the_rules_found_the_largest_gain_first(workbench):
    profile = workbench.profile(TRAIN)
    assert "optimizer_not_fused" in kinds(profile)
    gains = [finding.gain for finding in profile.findings]
    assert gains == sorted(gains, reverse=True)
    assert "What to do about it" in str(profile)
    assert "%accel try fused_optimizer" in str(profile)
    assert "<code>%accel try fused_optimizer</code>" in profile._repr_mimebundle_()["text/html"]
    assert workbench.findings().rows == profile.findings


def test_what_is_kept_already_is_not_suggested_again(workbench):
    workbench.profile(TRAIN)
    workbench.keep("fused_optimizer")
    assert "optimizer_not_fused" not in kinds(workbench.profile(TRAIN))


def test_findings_before_a_profile_say_what_to_do(workbench):
    with pytest.raises(AccelError, match="no cell was profiled yet"):
        workbench.findings()


def test_a_suggestion_that_cannot_work_here_is_taken_out_with_the_reason(monkeypatch):
    evidence = real()

    def convolutions_in_a_linear_model(evidence):
        return Finding(
            "rule", "t", "w.", 0.5, ("e",), None, ("channels_last", "fused_optimizer"), "", "never"
        )

    def only_channels_last(evidence):
        return Finding("rule", "t", "w.", 0.4, ("e",), None, ("channels_last",), "", "never")

    monkeypatch.setattr(profile_findings, "RULES", (convolutions_in_a_linear_model, only_channels_last))
    given = evidence.profile, evidence.workload, evidence.machine
    first, second = profile_findings.with_findings(*given, kept=Plan(())).findings
    assert first.suggests == ("fused_optimizer",)
    assert second.suggests == ()
    assert "No model has convolution weights" in second.remedy


def test_a_finding_whose_plan_is_refused_ranks_by_its_share(monkeypatch):
    evidence = real(timed=False)

    def found(name, plan, share, gain):
        predicted = Prediction(gain, 1.0, 2 * gain)
        return lambda evidence: Finding(name, "t", "w.", share, ("e",), predicted, (plan,), "", "never")

    rules = found("refused", "channels_last", 0.2, 3.0), found("possible", "fused_optimizer", 0.1, 1.5)
    monkeypatch.setattr(profile_findings, "RULES", rules)
    given = evidence.profile, evidence.workload, evidence.machine
    first, second = profile_findings.with_findings(*given, kept=Plan(())).findings
    assert (first.kind, second.kind) == ("possible", "refused")
    assert second.prediction is None


def test_a_cell_that_only_runs_forward_is_not_told_to_try_what_cannot_be_tried(monkeypatch):
    def suggesting(evidence):
        return Finding("rule", "t", "w.", 0.5, ("e",), None, ("fused_optimizer",), "", "never")

    monkeypatch.setattr(profile_findings, "RULES", (suggesting,))
    (finding,) = real("for _ in range(9):\n    model(x)").profile.findings
    assert finding.suggests == ()
    assert "no training step" in finding.remedy


def test_a_rule_that_fails_is_named_and_the_others_are_applied(monkeypatch):
    def broken(evidence):
        raise KeyError("oops")

    monkeypatch.setattr(profile_findings, "RULES", (broken, *profile_findings.RULES))
    evidence = real(setup=MANY_SMALL_LAYERS, timed=False)
    profile = profile_findings.with_findings(
        evidence.profile, evidence.workload, evidence.machine, kept=Plan(())
    )
    assert "optimizer_not_fused" in kinds(profile)
    assert any("broken failed" in note and "oops" in note for note in profile.notes)


def test_a_cell_without_a_step_has_no_findings():
    workbench = Workbench(notebook(), spare_workers=0)
    assert workbench.profile("total = sum(range(10))").findings == ()


def test_one_clean_step_is_too_few_to_say_what_is_slow(workbench):
    short, long = (workbench.profile(TRAIN.replace("range(50)", f"range({steps})")) for steps in (8, 14))
    assert short.steps == 1
    assert short.findings == ()
    assert any("--steps 2" in note for note in short.notes)
    assert long.findings
    assert not any("--steps 2" in note for note in long.notes)
