"""Ranks stay one model: where a cell sends one rank elsewhere, all stop there, with the reason and the state up to there."""

from __future__ import annotations

import pytest

from accel.distributed.ranks.rank_pool import RankPool
from tests.distributed.cells import TRAIN, alone, difference, on_ranks

EARLIER = "import torch.distributed as dist"


def training(
    before: str = "pass", after: str = "pass", stepped: str = "pass", epoch_over: str = "pass"
) -> str:
    """Three epochs of four batches, with lines of the user's in between; `mine` is this rank's own loss, another on each rank."""
    return f"""
def train():
    for epoch in range(3):
        for number, (inputs, labels) in enumerate(loader):
            is_odd = epoch == 1 and number == 2 and dist.get_rank() == 1
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            mine = loss.item()
            {before}
            loss.backward()
            {after}
            optimizer.step()
            {stepped}
        {epoch_over}
train()
"""


PARTED = {
    # name: (cell, steps until then, words of the reason)
    "a batch skipped": (training("if is_odd: continue"), 6, "rank 1 skipped batch 3 of pass 2 over loader"),
    "a first batch skipped": (training("if number == 1 and dist.get_rank() == 0: continue"), 1, "rank 0 skipped batch 2, and"),
    "an epoch's last batch skipped": (
        training("if epoch == 1 and number == 3 and dist.get_rank() == 1: continue"), 7, "rank 1 skipped batch 4 of pass 2",
    ),
    "a step left out after backward": (training(after="if is_odd: continue"), 6, "rank 1 took no optimizer step on batch 3"),
    "a loop left after the first step by rank 0": (
        training(stepped="if dist.get_rank() == 0: break"), 1, "rank 0 left the loop over loader at batch 1",
    ),
    "a loop left after the first step by rank 1": (
        training(stepped="if dist.get_rank() == 1: break"), 1, "rank 1 left the loop over loader at batch 1",
    ),
    "a loop left": (training("if is_odd: break"), 6, "rank 1 left pass 2 over loader at batch 3"),
    "a loop left, then a collective of the cell": (
        training(stepped="if is_odd: return") + "dist.barrier()", 7, "rank 1 left pass 2 over loader at batch 3",
    ),
    "stopped early between epochs": (
        training(epoch_over="if epoch == 1 and dist.get_rank() == 1: break"), 8, "rank 1 went on after pass 2 over loader",
    ),
    "the learning rate from the loss": (
        training(after="optimizer.param_groups[0]['lr'] = 0.05 * mine"), 0, "the learning rate is",
    ),
    "a schedule on the loss": (
        training(stepped="schedule.step(mine if epoch else 3 - 0.1 * number)").replace("def train", """
schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=2 + dist.get_rank(), threshold_mode="abs")
def train"""), 0, "the learning rate is",
    ),
    "a momentum from the loss": (
        training(stepped="optimizer.param_groups[0]['momentum'] = min(0.9, mine / 10)"), 1, "momentum",
    ),
    "the best state loaded by one rank": (
        training(stepped="if is_odd: model.load_state_dict({k: 1.01 * v for k, v in model.state_dict().items()})"), 7,
        "the parameters of rank 1 no longer equal those of rank 0",
    ),
    "a weight set through .data by one rank": (
        training(stepped="if is_odd: model[0].weight.data.mul_(0.9)"), 7, "the parameters of rank 1 no longer equal those",
    ),
    "one of two optimizers left out": (
        training(after="second.step() if not is_odd else None").replace(
            "def train", "second = torch.optim.SGD([optimizer.param_groups[0]['params'].pop()], lr=0.1)\ndef train"
        ), 6, "optimizer's step",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PARTED)
def test_ranks_that_part_stop_with_the_reason_and_their_last_common_state(pool: RankPool, name: str) -> None:
    cell, steps, words = PARTED[name]
    _, result = on_ranks(pool, cell, EARLIER)
    reason = result.warnings[0]
    assert result.was_stopped
    assert words in reason
    assert "ranks first" in reason
    if steps:
        assert (result.steps, reason.partition(":")[0]) == (steps, f"Stopped after step {steps}")


def test_the_state_is_that_of_the_last_step_before_one_rank_skipped_a_batch(pool: RankPool) -> None:
    ranks, _ = on_ranks(pool, training("if is_odd: continue"), EARLIER)
    one = alone(training("if epoch == 1 and number == 2: return").replace("dist.get_rank()", "0"))
    assert difference(one["model"], ranks["model"]) < 1e-12


def test_what_differs_after_the_last_step_is_a_note(pool: RankPool) -> None:
    cell = TRAIN + "if dist.get_rank():\n    optimizer.param_groups[0]['lr'] = 0.5"
    _, result = on_ranks(pool, cell, EARLIER)
    assert not result.was_stopped
    assert "After the last step, the learning rate is 0.1 on rank 0 and 0.5 on rank 1" in str(result)


ALIKE = {
    "the loss reduced first": training(
        before="dist.all_reduce(whole := loss.detach().clone()); mine = whole.item() / 2",
        after="optimizer.param_groups[0]['lr'] = 0.05 * mine",
        stepped="schedule.step(mine)",
        epoch_over="if mine < 1.0: break",
    ).replace(
        "def train", "schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)\ndef train"
    ),
    "a state that is loaded on one rank and equal": training(
        stepped="if is_odd: model.load_state_dict(model.state_dict())"
    ),
    "all ranks leave the loop": training("if number == 2: break"),
    "all ranks skip a batch": training("if number == 2: continue"),
    "a group of one rank's own": training(stepped="dist.barrier(group=own) if is_odd else None").replace(
        "def train", "own = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]\ndef train"
    ),
    "one rank evaluates by itself": training(
        epoch_over="model.eval(); dist.get_rank() or model(x); model.train()"
    ),
}


@pytest.mark.parametrize("name", ALIKE)
def test_ranks_that_decide_alike_go_on(pool: RankPool, name: str) -> None:
    _, result = on_ranks(pool, ALIKE[name], EARLIER)
    assert (result.was_stopped, result.notes) == (False, ())
