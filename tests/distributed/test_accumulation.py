"""Backward passes between two steps exchange nothing, and what comes out is the same."""

from __future__ import annotations

import pytest

from accel.distributed.data_parallel.accumulation import PassesPerStep
from accel.distributed.data_parallel.gradient_readers import reads_gradients
from accel.distributed.ranks.rank_pool import RankPool, run_function
from tests.distributed.cells import alone, difference, on_ranks

MORE = "loader = DataLoader(TensorDataset(x[:48], y[:48]), batch_size=4, shuffle=True)\n"
CELL = """
for epoch in range(3):
    for number, (inputs, labels) in enumerate(loader):
        (criterion(model(inputs), labels) / 4).backward()
        if (number + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def test_passes_of_a_step_are_learned_from_two_steps() -> None:
    pattern = PassesPerStep()
    due = []
    for _ in range(3):
        for _ in range(3):
            due.append(pattern.is_due(is_last_batch=False))
            pattern.passed()
        pattern.stepped()
    assert due == [True] * 6 + [False, False, True]
    assert pattern.is_due(is_last_batch=True)


def test_steps_of_different_length_teach_nothing() -> None:
    pattern = PassesPerStep()
    for passes in (3, 2, 3, 3):
        for _ in range(passes):
            pattern.passed()
        pattern.stepped()
    assert pattern.is_due(is_last_batch=False)


def test_after_a_surprise_every_pass_is_due() -> None:
    pattern = PassesPerStep()
    pattern.never_again()
    for _ in range(2):
        pattern.passed()
        pattern.passed()
        pattern.stepped()
    assert pattern.is_due(is_last_batch=False)


@pytest.mark.parametrize(
    ("source", "reads"),
    [("loss.backward(); optimizer.step()", False), ("n = p.grad.norm()", True), ("def f(m):\n    return m.w.grad", True)],
)  # fmt: skip
def test_code_that_names_a_gradient_is_found(source: str, reads: bool) -> None:
    assert reads_gradients([compile(source, "<cell>", "exec")]) is reads


def _counting(pool: RankPool, more: str = "") -> list[int]:
    """All-reduces of gradients that rank 0 took part in, by pass: small ones, of flags, left out."""

    def train() -> list[int]:
        import torch
        import torch.distributed as dist
        from torch.utils.data import DataLoader, TensorDataset

        torch.manual_seed(0)
        model = torch.nn.Linear(6, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(torch.randn(96, 6), torch.randn(96, 3)), batch_size=4)
        counts, original, seen = [], dist.all_reduce, [0]

        def counted(tensor, *args, **kwargs):  # type: ignore[no-untyped-def]
            seen[0] += tensor.is_floating_point()
            return original(tensor, *args, **kwargs)

        dist.all_reduce = counted
        try:
            for number, (inputs, labels) in enumerate(loader):
                before = seen[0]
                torch.nn.functional.mse_loss(model(inputs), labels).backward()
                counts.append(seen[0] - before)
                if number % 4 == 3:
                    optimizer.step()
                    optimizer.zero_grad()
        finally:
            dist.all_reduce = original
        return counts

    counts: list[int] = run_function(pool, train, trains=True)[0]
    return counts


def test_one_exchange_a_step_once_the_pattern_is_known(pool: RankPool) -> None:
    assert _counting(pool) == [1] * 8 + [0, 0, 0, 1]


def test_the_parameters_are_those_of_one_process(pool: RankPool) -> None:
    one = alone(CELL, MORE)
    ranks, _ = on_ranks(pool, CELL, MORE)
    assert difference(one["model"], ranks["model"]) < 1e-12
