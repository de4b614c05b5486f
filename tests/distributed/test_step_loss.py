"""The loss that is shown for a rank is the one that the user computes, not what a scaler or an accumulation makes of it."""

from __future__ import annotations

import pytest

from accel.distributed.ranks.rank_pool import RankPool
from tests.distributed.cells import on_ranks

STEP = """
scaler = torch.amp.GradScaler('cpu', init_scale=65536.0)
for number, (inputs, labels) in enumerate(loader):
    loss = criterion(model(inputs), labels)
    {backward}
    if number % {every} == {every} - 1:
        {step}
        optimizer.zero_grad()
shown = float({true})
"""

TWO_LOSSES = """
judge = torch.optim.SGD(model.parameters(), lr=0.01)
for inputs, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(inputs), labels)
    (loss * 0.5).backward()
    optimizer.step()
    judge.zero_grad()
    criterion(model(inputs), labels).backward()
    judge.step()
shown = float(loss * 0.5)
"""


def test_the_backward_pass_of_another_optimizer_is_no_part_of_the_loss(pool: RankPool) -> None:
    found, result = on_ranks(pool, TWO_LOSSES)
    assert result.ranks[0].lane.loss == pytest.approx(found["shown"], rel=1e-9)


@pytest.mark.parametrize(
    ("backward", "every", "step", "true"),
    [
        ("loss.backward()", 1, "optimizer.step()", "loss"),
        ("scaler.scale(loss).backward()", 1, "scaler.step(optimizer); scaler.update()", "loss"),
        ("(loss / 4).backward()", 4, "optimizer.step()", "loss"),
        ("(loss * 0.25).backward()", 4, "optimizer.step()", "loss"),
        ("scaler.scale(loss / 2).backward()", 2, "scaler.step(optimizer); scaler.update()", "loss"),
        ("(0.5 * loss).backward()", 1, "optimizer.step()", "0.5 * loss"),
        ("(loss / 3).backward()", 4, "optimizer.step()", "loss / 3"),
    ],
)
def test_the_loss_of_a_rank_is_the_true_one(
    pool: RankPool, backward: str, every: int, step: str, true: str
) -> None:
    cell = STEP.format(backward=backward, every=every, step=step, true=true)
    found, result = on_ranks(pool, cell)
    assert result.steps == 4 // every
    assert result.ranks[0].lane.loss == pytest.approx(found["shown"], rel=1e-9)
