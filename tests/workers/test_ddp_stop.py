"""Stop ends all ranks after the same step, wherever they are when it comes, and the state of that step is in the notebook."""

from __future__ import annotations

import random
import threading

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.distributed.cells.run_cell import CellRun
from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.rank_pool import RankPool

CELL = """
for epoch in range(100000):
    for x, y in loader:
        {before}
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        {step}
        steps.append(loss.item())
"""
EVERY = "optimizer.step()"
ACCUMULATED = "number += 1\n        if number % 3 == 0: optimizer.step()"
UNEVEN = "time.sleep(random.random() / 200 * (1 + torch.distributed.get_rank()))"


@pytest.fixture(scope="module")
def pool():
    ranks = RankPool(2, threads=1)
    yield ranks
    ranks.close()


def notebook():
    import random
    import time

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    data = TensorDataset(torch.randn(160, 8), torch.randint(0, 4, (160,)))
    return {
        "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1), "criterion": nn.CrossEntropyLoss(),
        "loader": DataLoader(data, batch_size=8), "steps": [], "number": 0, "torch": torch, "time": time, "random": random,
    }  # fmt: skip


def stopped(pool, namespace, cell, at_step):
    """The result of a run that is stopped when a rank has done so many steps, from the thread that watches."""
    run = None

    def watch(lanes):
        if max((lane.step for lane in lanes), default=0) >= at_step:
            run.stop()

    run = CellRun(pool, cell, namespace, filename="<cell>", watch=watch)
    return run.go()


@pytest.mark.parametrize("step", [EVERY, ACCUMULATED], ids=["every batch", "accumulated"])
@pytest.mark.parametrize("before", ["pass", UNEVEN], ids=["even", "uneven"])
def test_all_ranks_stop_after_the_same_step_and_its_state_comes_home(pool, before, step):
    for at_step in random.Random(before + step).sample(range(1, 60), 6):
        namespace, pids = notebook(), pool.pids
        weight = namespace["model"][0].weight
        was = weight.clone()
        result = stopped(pool, namespace, CELL.format(before=before, step=step), at_step)
        assert result.was_stopped
        assert len({each.lane.step for each in result.ranks}) == 1
        assert result.steps >= at_step
        batches = len(namespace["steps"])
        assert batches == result.steps * (
            1 if step == EVERY else 3
        )  # what follows the step in the loop was done too
        assert namespace["model"][0].weight is weight
        assert not weight.equal(was)
        assert pids in ({}, pool.pids)


def test_the_state_that_comes_home_is_that_of_the_steps_that_were_done(pool):
    stopped_at, whole = notebook(), notebook()
    result = stopped(pool, stopped_at, CELL.format(before="pass", step=EVERY), 7)
    counted = CELL.format(before=f"if len(steps) == {result.steps}: break", step=EVERY)
    CellRun(pool, counted.replace("100000", str(1 + result.steps // 10)), whole, filename="<cell>").go()
    assert len(whole["steps"]) == result.steps
    assert whole["steps"] == stopped_at["steps"]
    for mine, other in zip(stopped_at["model"].parameters(), whole["model"].parameters(), strict=True):
        assert mine.equal(other)


def test_a_stop_that_comes_before_the_run_ends_it_after_its_first_steps(pool):
    namespace = notebook()
    run = CellRun(pool, CELL.format(before="pass", step=EVERY), namespace, filename="<cell>")
    run.stop()
    result = run.go()
    assert result.was_stopped
    assert result.steps == 2  # the first proposes, the second is the last


def test_a_bare_except_in_the_loop_does_not_keep_the_run_from_stopping(pool):
    cell = """
for epoch in range(100000):
    for x, y in loader:
        try:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()
        except:
            continue
"""
    assert stopped(pool, notebook(), cell, 3).was_stopped


def test_ranks_whose_steps_run_ahead_of_their_exchanges_stop_together():
    """As on a GPU: a rank queues steps, and only when it catches up are the others at most one step behind."""
    for seed in range(300):
        order = random.Random(seed)
        ranks, ahead = order.choice([2, 3, 4]), order.randrange(0, 9)
        page = RankPage(ranks)
        done, over = [0] * ranks, [0] * ranks
        asked_at = order.randrange(1, 200)
        waits = [False] * ranks  # until the others have given their part of the step it is in
        for turn in range(10_000):
            if turn == asked_at:
                page.ask_to_stop()
            rank = order.randrange(ranks)
            if over[rank]:
                continue
            others = [done[other] for other in range(ranks) if other != rank]
            most_ahead = 0 if waits[rank] or turn >= asked_at else ahead
            # a step is an exchange: with its own part of step n given, a rank that has caught up knows that all gave theirs
            if done[rank] - min(others) > most_ahead:
                continue
            done[rank] += 1
            page.write(rank, step=done[rank])
            waits[rank] = turn >= asked_at
            if page.stops_after(rank, done[rank]):
                over[rank] = done[rank]
            if all(over):
                break
        assert len(set(over)) == 1, (seed, over)
        assert over[0] > 0
        page.close()


def test_stop_from_another_thread_while_ranks_run(pool):
    namespace, begun = notebook(), threading.Event()
    run = CellRun(
        pool, CELL.format(before="pass", step=EVERY), namespace, filename="<cell>",
        watch=lambda lanes: begun.set() if lanes and lanes[0].step else None,
    )  # fmt: skip
    stopper = threading.Thread(target=lambda: begun.wait(60) and run.stop())
    stopper.start()
    assert run.go().was_stopped
    stopper.join()
