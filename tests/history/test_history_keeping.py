"""A profile writes its predictions, a trial its rows; the two meet where the plan was suggested for that workload."""

from __future__ import annotations

import os

import pytest

from accel import cli
from accel.errors import AccelError
from accel.plans.plan import Plan
from accel.workbench import Workbench
from accel.workbench.history_keeping import HistoryKeeper
from accel.workbench.measured_again import measured_again
from tests.diagnosis.making import MANY_SMALL_LAYERS, TRAIN, notebook
from tests.history.test_history_store import TRIAL
from tests.threads import threads
from tests.workers.conftest import trials_with


@pytest.fixture(autouse=True)
def small_operations_on_one_thread():
    with threads(1):
        yield


@pytest.fixture
def file(tmp_path, monkeypatch):
    file = tmp_path / "history.sqlite"
    monkeypatch.setenv("ACCEL_HISTORY", str(file))
    return file


@pytest.fixture
def workbench(file, monkeypatch):
    trials_with(monkeypatch, can_be_steady=False)
    workbench = Workbench(notebook(MANY_SMALL_LAYERS), spare_workers=0)
    yield workbench
    workbench.close()


def test_a_trial_of_what_was_suggested_is_joined_with_its_prediction(workbench):
    workbench.profile(TRAIN)
    workbench.try_("fused_optimizer")
    past = workbench.history(predictions=True)
    row = next(row for row in past.rows if row.predicted.kind == "optimizer_not_fused")
    assert row.predicted.plan == "fused_optimizer"
    assert row.measured.plan == "fused_optimizer"
    assert row.measured.machine == workbench.machine.line
    trial = workbench.history().rows[0]
    shown = workbench.trials[-1].ladder.rows[0]
    assert trial.verdict == shown.verdict
    assert trial.ratio == shown.shown.ratio
    workbench.profile(TRAIN)
    assert not workbench.history(predictions=True).rows[0].is_measured
    assert len(workbench.history().rows) == 1


def test_what_is_predicted_on_top_of_what_is_kept_is_not_scored_by_a_trial_without_it(workbench):
    workbench.profile(TRAIN)
    workbench.keep("intraop_threads(n=2)")
    workbench.profile(TRAIN)
    workbench.try_("fused_optimizer")
    rows = workbench.history(predictions=True).rows
    row = next(row for row in rows if row.predicted.kind == "optimizer_not_fused")
    assert row.predicted.live == str(Plan.parse("intraop_threads(n=2)"))
    assert row.measured.live == ""
    assert row.is_measured
    assert not row.is_scored
    assert f"not scored: predicted with {row.predicted.live} kept" in str(row)


def test_what_is_predicted_of_the_cell_waits_for_no_trial_which_times_steps(workbench):
    validate = "model.eval()\nfor _ in range(3000):\n    model(x)\nmodel.train()\n"
    profile = workbench.profile(TRAIN + validate)
    (finding,) = [each for each in profile.findings if each.kind == "gradients_in_validation"]
    assert finding.suggests == ("no_grad_validation",)
    rows = workbench.history(predictions=True).rows
    assert [row.predicted.plan for row in rows if row.predicted.kind == finding.kind] == [""]


def test_predictions_are_there_for_the_next_notebook_and_for_the_shell(workbench):
    profile = workbench.profile(TRAIN)
    other = Workbench(notebook(), spare_workers=0)
    kinds = {row.predicted.kind for row in other.history(predictions=True).rows}
    assert kinds == {finding.kind for finding in profile.findings if finding.prediction}
    assert "optimizer_not_fused" in cli.answer(["history", "--predictions"])
    assert "No trial was recorded yet" in cli.answer(["history"])


def test_a_history_that_cannot_be_written_is_noted_once_in_a_profile(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ACCEL_HISTORY", str(tmp_path / "file" / "history.sqlite"))
    workbench = Workbench(notebook(MANY_SMALL_LAYERS), spare_workers=0)
    first, second = workbench.profile(TRAIN), workbench.profile(TRAIN)
    assert any("cannot be used" in note for note in first.notes)
    assert not any("cannot be used" in note for note in second.notes)
    assert first.findings


def test_of_the_users_code_only_a_hash_is_kept(workbench, file):
    secret = TRAIN + "\nsecret_recipe = 'butter'\n"
    workbench.profile(secret)
    written = b"".join(path.read_bytes() for path in file.parent.iterdir())
    assert b"optimizer_not_fused" in written
    assert b"secret_recipe" not in written
    assert b"butter" not in written


def test_a_past_trial_is_measured_anew_and_its_old_figures_stand_below(workbench):
    workbench.profile(TRAIN)
    workbench.try_("fused_optimizer")
    again = measured_again(workbench, 1)
    assert again.rows[0].plan == "fused_optimizer"
    assert any(note.startswith("Before, on ") and "×" in note for note in again.notes)


def test_a_number_that_is_not_there_and_a_trial_of_another_cell_are_refused(workbench):
    workbench.profile(TRAIN)
    with pytest.raises(AccelError, match="nothing was measured yet"):
        measured_again(workbench, 1)
    workbench.history_keeper.store.add([TRIAL])
    with pytest.raises(AccelError, match="numbers 1 to 1"):
        measured_again(workbench, 7)
    with pytest.raises(AccelError, match="another cell"):
        measured_again(workbench, 1)


METRIC = "def accuracy(model):\n    return float(model(x).mean())\n"
BY_QUALITY = {"train_s": 4, "metric": "accuracy"}
ASKED = [("try_", ("fused_optimizer",), {}), ("try_", ("fused_optimizer",), BY_QUALITY), ("tune", (), {})]


@pytest.mark.parametrize(("command", "plans", "wanted"), ASKED, ids=["speed", "quality", "search"])
def test_what_a_killed_kernel_measured_was_interrupted_and_what_ended_is_not(
    workbench, command, plans, wanted
):
    exec(METRIC, workbench.namespace)
    workbench.profile(TRAIN)
    trial = getattr(workbench, command)(*plans, **wanted, wait=False)
    (row,) = workbench.history().rows
    assert (row.plan, row.verdict) == ("%accel tune" if command == "tune" else "fused_optimizer", "running")
    assert row.asked == ("after 4 s of training" if wanted else "")
    trial.stop()
    assert [each.verdict for each in workbench.history().rows if each.verdict == "running"] == []
    if (kernel := os.fork()) == 0:
        HistoryKeeper().keep_begin(trial, workbench.workload, workbench.machine)
        os._exit(0)
    os.waitpid(kernel, 0)
    killed = [each for each in workbench.history().rows if each.verdict == "interrupted"]
    assert [(each.plan, each.asked) for each in killed] == [(row.plan, row.asked)]
    assert "interrupted" in str(workbench.history())


def test_a_search_that_was_interrupted_is_not_measured_anew_as_a_plan(workbench):
    workbench.profile(TRAIN)
    trial = workbench.tune(wait=False)
    trial.stop()
    HistoryKeeper().keep_begin(trial, workbench.workload, workbench.machine)
    number = workbench.history().numbered[0][0]
    with pytest.raises(AccelError, match="it was a search"):
        measured_again(workbench, number)
