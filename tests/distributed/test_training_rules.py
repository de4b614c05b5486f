"""One rank is as none; batches per rank; random numbers; loaders that cannot be cut; and what is refused, in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from accel.distributed.data_parallel.lineages import Lineages
from accel.distributed.ranks.rank_pool import RankPool
from accel.errors import AccelError
from tests.distributed.cells import TRAIN, alone, difference, on_ranks

DROPOUT = """
model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.BatchNorm1d(8), nn.Linear(8, 3)).double()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
"""
STREAM = """
class Stream(IterableDataset):
    def __iter__(self):
        yield from zip(x, y)
loader = DataLoader(Stream(), batch_size=5)
"""


@pytest.mark.parametrize("batch", ["global", "per-rank"])
def test_one_rank_is_bit_for_bit_one_process(pools: dict[int, RankPool], batch: str) -> None:
    import torch

    cell = TRAIN + "after = torch.rand(3)\n"
    threads = torch.get_num_threads()
    one = alone(cell, DROPOUT)
    ranks, _ = on_ranks(pools[1], cell, DROPOUT, batch=batch)
    assert threads == torch.get_num_threads()
    assert difference(one["model"], ranks["model"]) == 0
    assert torch.equal(one["after"], ranks["after"])


def test_three_ranks_on_however_many_cores(pools: dict[int, RankPool]) -> None:
    one, (ranks, result) = alone(TRAIN), on_ranks(pools[3], TRAIN)
    assert difference(one["model"], ranks["model"]) < 1e-12
    assert [each.lane.step for each in result.ranks] == [8, 8, 8]


def test_steps_of_every_fold_are_counted(pool: RankPool) -> None:
    folds = """
models = []
for fold in range(3):
    model = nn.Linear(6, 3).double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    models.append((model, optimizer))
    for inputs, labels in loader:
        criterion(model(inputs), labels).backward(); optimizer.step(); optimizer.zero_grad()
"""
    _, result = on_ranks(pool, folds)
    assert [each.lane.step for each in result.ranks] == [12, 12]


def test_a_step_per_rank_is_the_mean_over_as_many_batches(pool: RankPool) -> None:
    more = "loader = DataLoader(TensorDataset(x[:48], y[:48]), batch_size=8)\n"
    together = "loader = DataLoader(TensorDataset(x[:48], y[:48]), batch_size=16)\n"
    one, (ranks, result) = alone(TRAIN, together), on_ranks(pool, TRAIN, more, batch="per-rank")
    assert difference(one["model"], ranks["model"]) < 1e-12
    assert result.steps == 6


def test_a_streams_batches_go_round(pool: RankPool) -> None:
    together = STREAM.replace("batch_size=5", "batch_size=10")
    one, (ranks, _) = alone(TRAIN, together), on_ranks(pool, TRAIN, STREAM, batch="per-rank")
    assert difference(one["model"], ranks["model"]) < 1e-12


def test_a_loader_that_makes_no_batches(pool: RankPool) -> None:
    more = """
class Batched(Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, at):
        return x[8 * at:8 * at + 8], y[8 * at:8 * at + 8]
loader = DataLoader(Batched(), batch_size=None)
"""
    together = "loader = DataLoader(TensorDataset(x[:48], y[:48]), batch_size=16)\n"
    one, (ranks, _) = alone(TRAIN, together), on_ranks(pool, TRAIN, more, batch="per-rank")
    assert difference(one["model"], ranks["model"]) < 1e-12


def test_dropout_differs_and_the_order_does_not(pool: RankPool) -> None:
    cell = """
import torch.distributed as dist
masks, order = [], []
drop = nn.Dropout(0.5)
for epoch in range(2):
    for inputs, labels in loader:
        optimizer.zero_grad()
        masks.append(drop(torch.ones(20)))
        order.append(inputs[:, 0].clone())
        criterion(model(inputs), labels).backward()
        optimizer.step()
theirs = [None, None]
dist.all_gather_object(theirs, (masks, order))
"""
    more = "loader = DataLoader(TensorDataset(x[:48], y[:48]), batch_size=16, shuffle=True)"
    ranks, _ = on_ranks(pool, cell, more)
    (masks, order), (other_masks, other_order) = ranks["theirs"]
    assert all(difference(a, b) > 0 for a, b in zip(masks, other_masks, strict=True))
    import torch

    whole = ranks["x"][:48, 0].sort().values.tolist()
    first, second = torch.cat(order[:3] + other_order[:3]), torch.cat(order[3:] + other_order[3:])
    assert first.sort().values.tolist() == second.sort().values.tolist() == whole
    assert second.tolist() != first.tolist()


@pytest.mark.parametrize(
    ("cell", "more", "batch", "why"),
    [
        ("F.cross_entropy(model(x), y).backward()", "", "global", "come from no DataLoader"),
        ("total = sum(len(b) for a, b in loader)", "", "global", "no backward pass was seen in it"),
        (TRAIN, STREAM, "global", "IterableDataset"),
        (
            TRAIN,
            "loader = DataLoader(TensorDataset(x[None], y[None]), batch_size=None)",
            "global",
            "batch_size=None",
        ),
    ],
)
def test_what_cannot_be_right_is_refused_in_words(
    pool: RankPool, cell: str, more: str, batch: str, why: str
) -> None:
    with pytest.raises(AccelError) as raised:
        on_ranks(pool, cell, more, batch=batch)
    assert why in str(raised.value)
    assert raised.value.do


@pytest.mark.parametrize(
    ("made", "use"),
    [
        ("", "model(inputs.view(16, 6))"),
        ("hidden = torch.zeros(16, 3, dtype=torch.float64)", "model(inputs) + hidden"),
        ("net = nn.LSTM(6, 6).double()", "model(net(inputs[None], (inputs.new_zeros(1, 16, 6),) * 2)[0][0])"),
    ],
)
def test_an_error_that_names_the_whole_batch_says_that_each_rank_has_a_part(
    pool: RankPool, made: str, use: str
) -> None:
    with pytest.raises(AccelError, match="each rank a part of every batch of loader, here 8 of 16 samples"):
        on_ranks(pool, TRAIN.replace("model(inputs)", f"({use})"), made)


def test_a_schedule_of_one_process_that_ranks_leave_half_way_is_noted(pool: RankPool) -> None:
    """One that was made in the cell, where len(loader) is that of ranks, is not."""
    one = "torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=2, steps_per_epoch=len(loader))"
    other = "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=2 * len(loader))"
    steps = "optimizer.step()\n        [each.step() for each in (one, other, own)]"
    cell = f"own = {other}\n" + TRAIN.replace("optimizer.step()", steps)
    _, result = on_ranks(pool, cell, f"one = {one}\nother = {other}", batch="per-rank")
    noted = [
        note.partition(" ")[0] for note in result.notes if "was made for 8 steps but took only 4" in note
    ]
    assert noted == ["one", "other"]


def test_a_checkpoint_that_ranks_save_and_load_is_always_whole(pool: RankPool, tmp_path: Path) -> None:
    place = str(tmp_path / "best.pt")
    kept = f"    torch.save([epoch, large], {place!r})\n    saved = torch.load({place!r})[0]\n"
    on_ranks(pool, TRAIN.replace("range(2)", "range(8)") + kept, "large = torch.randn(500_000)")
    assert [path.name for path in tmp_path.iterdir()] == ["best.pt"]


RUN = """
def run(loader, train):
    for number, (inputs, labels) in enumerate(loader):
        with torch.set_grad_enabled(train):
            loss = criterion(model(inputs), labels)
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        elif number:
            raise KeyError("the epoch went on")
run(loader, True)
run(held_out, False)
"""


def test_an_evaluation_that_only_its_flag_tells_is_refused_at_its_first_batch(pool: RankPool) -> None:
    with pytest.raises(AccelError, match="first batches went through a model without gradients") as refused:
        on_ranks(pool, RUN, "held_out = DataLoader(TensorDataset(x, y), batch_size=7)")
    assert "over held_out" in str(refused.value)
    assert "--loaders loader." in str(refused.value)


FORGETS_TRAIN = (
    TRAIN.replace("range(2)", "range(3)") + "    model.eval()\n    with torch.no_grad():\n        model(x)\n"
)


GRADIENTS_OFF = (
    TRAIN.replace("range(2)", "range(3)").replace(
        "in loader:\n", "in loader:\n        torch.set_grad_enabled(True)\n"
    )
    + "    torch.set_grad_enabled(False)\ntorch.set_grad_enabled(True)\n"
)


def test_a_loop_that_is_in_eval_mode_from_the_second_epoch_on_is_refused_and_by_name_trains(
    pool: RankPool,
) -> None:
    with pytest.raises(AccelError, match="began with all models in eval mode") as refused:
        on_ranks(pool, FORGETS_TRAIN)
    assert "model.train() and turn gradients on before the loop" in str(refused.value)
    ranks, _ = on_ranks(pool, FORGETS_TRAIN, loaders=("loader",))
    assert difference(alone(FORGETS_TRAIN)["model"], ranks["model"]) < 1e-12


def test_a_loop_that_begins_with_gradients_off_raises_unless_its_loader_is_named(
    pool: RankPool,
) -> None:
    with pytest.raises(AccelError, match="eval mode or with gradients off") as refused:
        on_ranks(pool, GRADIENTS_OFF)
    assert "name the loaders that train: --loaders loader." in str(refused.value)
    ranks, _ = on_ranks(pool, GRADIENTS_OFF, loaders=("loader",))
    assert difference(alone(GRADIENTS_OFF)["model"], ranks["model"]) < 1e-12


def test_what_every_rank_trains_whole_after_the_training_is_noted(pool: RankPool) -> None:
    calibrated = TRAIN + TRAIN.replace("in loader", "in DataLoader(TensorDataset(x, y), batch_size=25)")
    cell = calibrated.replace("for epoch", "model.eval()\nfor epoch").replace("model.eval()\n", "", 1)
    ranks, result = on_ranks(pool, cell)
    assert difference(alone(cell)["model"], ranks["model"]) < 1e-12
    assert any("over a DataLoader began, and steps were taken in it" in note for note in result.notes)


def test_a_function_without_collectives_runs_on_all_ranks_however_soon_each_is_done(pool: RankPool) -> None:
    assert [pool.run(int) for _ in range(20)] == [[0, 0]] * 20  # one in ten failed while nobody waited


def test_ranks_draw_alike_for_sampling_and_apart_for_training() -> None:
    import torch

    def draws(rank: int) -> tuple[list[float], list[float], list[float]]:
        torch.manual_seed(3)
        lineages = Lineages(rank)
        lineages.part_ways()
        own = torch.rand(rank + 2).tolist()  # ranks may draw differently often
        with lineages.shared():
            shared = torch.rand(3).tolist()
        with lineages.seeded_alike():
            torch.manual_seed(5)
        seeded = torch.rand(2).tolist()
        return own[:2], shared, seeded

    (own, shared, seeded), (own_1, shared_1, seeded_1) = draws(0), draws(1)
    assert own != own_1
    assert shared == shared_1
    assert seeded == seeded_1
