"""A trial from end to end with real workers: verdicts, losses, proofs, and the notebook left alone."""

from __future__ import annotations

import dataclasses
import math
import time

import pytest
import torch

from accel.errors import AccelError, NotApplicable, UnknownName
from tests.workers.conftest import CELL, worker_processes


@pytest.mark.usefixtures("two_stages")
def test_a_trial_answers_for_each_plan_and_changes_nothing(workbench):
    workbench.profile(CELL)
    before = [p.clone() for p in workbench.namespace["model"].parameters()]
    state = torch.get_rng_state()
    ladder = workbench.try_("fused_optimizer", "channels_last+fused_optimizer")
    assert {row.plan for row in ladder.rows} == {"fused_optimizer", "channels_last+fused_optimizer"}
    for row in ladder.rows:
        shown = row.headline or row.steady
        assert row.verdict in ("faster", "slower", "no difference", "undecided")
        assert shown.low <= shown.ratio <= shown.high
        assert row.quality.following in ("same", "follows")
        assert row.quality.steps >= 10
        assert all(took for _, took, _ in row.proofs), row.proofs
    assert "unchanged" in ladder.unchanged_line
    assert all(map(torch.equal, before, workbench.namespace["model"].parameters()))
    assert torch.equal(state, torch.get_rng_state())
    assert "torch" in ladder.machine_line


def test_an_exact_plan_has_bit_equal_losses(workbench):
    workbench.profile(CELL)
    row = workbench.try_("loader_workers(n=1)")["loader_workers(n=1)"]
    assert str(row.quality).startswith("losses bit-equal")


def test_a_plan_that_makes_steps_longer_is_called_slower(workbench):
    cell = """
for x, y in loader:
    if optimizer.param_groups[0]["fused"]:
        time.sleep(0.01)  # as long as ten steps, on a busy machine too
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
    workbench.profile(cell)
    row = workbench.try_("fused_optimizer").rows[0]
    assert row.verdict == "slower"
    assert (row.headline or row.steady).high < 1
    assert "slower" in row.sentence


def test_the_steady_allocator_is_compared_as_processes_of_this_notebook(workbench):
    workbench.profile(CELL)
    row = workbench.try_("steady_allocator").rows[0]
    assert row.steady is None
    assert row.headline.relaunches == 1
    assert row.proofs[0][0] == "steady_allocator"
    assert row.quality.following == "same"


def test_objects_that_the_cell_builds_get_the_plan_when_they_are_first_used(workbench):
    cell = """
net = nn.Sequential(nn.Conv2d(1, 8, 3), nn.Flatten(), nn.Linear(288, 4))
opt = torch.optim.Adam(net.parameters())
for x, y in loader:
    opt.zero_grad()
    criterion(net(x), y).backward()
    opt.step()
"""
    workbench.profile(cell)
    row = workbench.try_("channels_last+fused_optimizer").rows[0]
    assert {name: took for name, took, _ in row.proofs} == {
        "channels_last": True,
        "fused_optimizer": True,
    }


def test_a_hand_written_update_is_stepped_by_its_backward_passes(workbench):
    cell = """
for x, y in loader:
    grads = torch.autograd.grad(criterion(model(x), y), list(model.parameters()))
    with torch.no_grad():
        for p, g in zip(model.parameters(), grads):
            p -= 1e-3 * g
"""
    workbench.profile(cell)
    assert workbench.workload.boundary == "backward"
    row = workbench.try_("channels_last").rows[0]
    assert row.state == "done"
    assert not math.isnan(row.quality.largest_difference)


def test_a_trial_in_the_background_fills_its_ladder_and_can_be_awaited(workbench):
    import asyncio

    workbench.profile(CELL)
    seen = []
    trial = workbench.try_("fused_optimizer", wait=False)
    trial.on_change(lambda: seen.append(trial.state))
    with pytest.raises(AccelError, match="a trial is running already"):
        workbench.try_("channels_last")

    async def answer():
        return await trial

    ladder = asyncio.run(answer())
    assert ladder.rows[0].state == "done"
    assert seen[-1] == "done"
    assert worker_processes() == []


def test_stop_ends_the_trial_and_its_workers_at_once(workbench):
    workbench.profile(CELL)
    trial = workbench.try_("fused_optimizer", wait=False)
    while not worker_processes():
        time.sleep(0.05)
    trial.stop()
    assert trial.state == "stopped"
    assert worker_processes() == []
    assert trial.wait().rows[0].state == "stopped"


def test_keep_takes_the_best_plan_and_undo_gives_back_the_same_losses(workbench):
    workbench.profile(CELL)
    status = workbench.keep("channels_last+fused_optimizer")
    assert status.kept == "channels_last+fused_optimizer"
    exec("train()", workbench.namespace)
    assert all(took for _, took, _ in workbench.status().proofs)
    assert workbench.undo("channels_last").kept == "fused_optimizer"
    assert workbench.undo().kept == "nothing"


def test_a_kept_plan_survives_profiling_again(workbench):
    workbench.profile(CELL)
    workbench.keep("fused_optimizer")
    workbench.profile(CELL)
    assert str(workbench.kept) == "fused_optimizer"


def test_a_trial_while_something_is_kept_compares_with_the_plain_cell(workbench):
    workbench.profile(CELL)
    workbench.keep("channels_last")
    row = workbench.try_("fused_optimizer").rows[0]
    assert row.proofs[0][:2] == ("fused_optimizer", True)
    assert str(workbench.kept) == "channels_last"
    assert "unchanged" in workbench.trials[-1].ladder.unchanged_line


@pytest.mark.parametrize(
    ("plan", "error", "says"),
    [
        ("chanels_last", UnknownName, "Did you mean 'channels_last'"),
        ("intraop_threads(m=2)", UnknownName, "n"),
        ("loader_workers(n='two')", AccelError, "n"),
        ("", AccelError, "baseline"),
    ],
)
def test_a_wrong_plan_gets_the_nearest_right_word(workbench, plan, error, says):
    workbench.profile(CELL)
    with pytest.raises(error, match=says):
        workbench.try_(plan)


def test_an_acceleration_that_cannot_work_gives_its_reasons(workbench):
    workbench.namespace["optimizer"] = torch.optim.LBFGS(workbench.namespace["model"].parameters())
    workbench.profile("""
def closure():
    optimizer.zero_grad()
    loss = criterion(model(data[:16][0]), data[:16][1])
    loss.backward()
    return loss

optimizer.step(closure)
""")
    with pytest.raises(NotApplicable, match="LBFGS"):
        workbench.try_("fused_optimizer")


def test_a_cell_without_a_training_step_can_be_profiled_but_not_tried(workbench):
    workbench.profile("model(data[:16][0]); None")
    with pytest.raises(AccelError, match=r"no training step.*Profile the cell that trains"):
        workbench.try_("channels_last")
    with pytest.raises(AccelError, match="no training step"):
        workbench.keep("channels_last")


def test_trying_before_profiling_says_what_to_do(workbench):
    with pytest.raises(AccelError, match="%%accel profile"):
        workbench.try_("channels_last")


def test_a_plan_that_cannot_work_keeps_a_row_with_its_reasons_beside_those_that_can(workbench, monkeypatch):
    workbench.profile(CELL)
    monkeypatch.setitem(workbench.__dict__, "machine", dataclasses.replace(workbench.machine, isa=()))
    ladder = workbench.try_("autocast", "fused_optimizer")
    assert ladder["autocast"].state == "not applicable"
    assert "bfloat16" in ladder["autocast"].sentence
    assert ladder["fused_optimizer"].state == "done"


def test_keep_reaches_objects_that_a_function_builds_for_itself(workbench):
    exec(
        """
def build_and_train():
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    opt = torch.optim.Adam(net.parameters())
    for x, y in loader:
        opt.zero_grad()
        criterion(net(x), y).backward()
        opt.step()
    return opt
""",
        workbench.namespace,
    )
    workbench.profile("build_and_train(); None")
    workbench.keep("fused_optimizer")
    optimizer = workbench.namespace["build_and_train"]()
    assert optimizer.param_groups[0]["fused"]
    workbench.undo()
    assert not optimizer.param_groups[0]["fused"]
    assert not workbench.namespace["build_and_train"]().param_groups[0]["fused"]


def test_keep_follows_a_model_that_an_earlier_cell_builds_anew(workbench):
    workbench.profile(CELL)
    workbench.keep("fused_optimizer")
    exec("optimizer = torch.optim.Adam(model.parameters())\ntrain()", workbench.namespace)
    assert workbench.namespace["optimizer"].param_groups[0]["fused"]


def test_profiling_an_evaluation_cell_takes_nothing_back(workbench):
    workbench.profile(CELL)
    workbench.keep("fused_optimizer")
    workload = workbench.workload
    workbench.profile("with torch.no_grad():\n    for x, y in loader:\n        model(x)")
    assert workbench.workload is workload
    assert str(workbench.kept) == "fused_optimizer"


def test_cells_that_the_user_runs_during_a_trial_are_not_blamed_on_it(workbench):
    workbench.profile(CELL)
    trial = workbench.try_("fused_optimizer", wait=False)
    workbench.cells_run += 1
    exec("train()", workbench.namespace)
    trial.stop()
    assert "You ran cells during the trial" in trial.ladder.unchanged_line
