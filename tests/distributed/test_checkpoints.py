"""A cell that lost a rank goes on from its last checkpoint as if nothing had happened."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

import accel
from accel.distributed.cells.run_cell import CellRun
from accel.distributed.cells.run_options import RunOptions
from accel.distributed.ranks.rank_pool import RankPool
from accel.errors import AccelError, RankError

EPOCHS, BATCHES = 3, 6  # of each rank
CELL = """
from torch.optim.lr_scheduler import StepLR
scheduler = StepLR(optimizer, 1, gamma=0.5)
noise = torch.randn(3)
total, best = torch.zeros(()), None
for epoch in range(3):
    model.train()
    if epoch:
        previous = loss.item()
    for number, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        total += loss.detach()
        losses.append(loss.item())
        history["loss"].append((epoch, number, loss.item()))
        order.append(x[:, 0].tolist())
        at_step(len(losses))
    scheduler.step()
    model.eval()
    with torch.no_grad():
        shown = model(x).sum().item()
    best = losses[-1] if best is None else min(best, losses[-1])
    print("epoch", epoch, number, loss.item())
"""
SEEN = ("losses", "history", "order", "best", "previous", "shown", "number", "epoch")


class Noisy(Dataset):
    """Samples that are disturbed anew each time, as by augmentation."""

    def __init__(self, count: int) -> None:
        self.x, self.y = torch.randn(count, 8), torch.randint(4, (count,))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[at] + 0.1 * torch.randn(8) + 0.1 * random.random(), self.y[at]


def notebook(*, at_step=None, dataset=None, workers: int = 0, seed: int = 3) -> dict:
    """What the cell reads; made alike each time, but for the random numbers that come after."""
    torch.manual_seed(0)
    random.seed(0)
    dataset = dataset or TensorDataset(
        torch.arange(96.0)[:, None].expand(96, 8).clone(), torch.randint(4, (96,))
    )
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4))
    namespace = {
        "__name__": "__main__",
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.01),
        "loader": DataLoader(dataset, batch_size=8, shuffle=True, num_workers=workers),
        "criterion": nn.CrossEntropyLoss(),
        "losses": [],
        "order": [],
        "history": {"loss": []},
        "torch": torch,
        "at_step": at_step or nothing,
    }
    torch.manual_seed(seed)
    return namespace


def nothing(step):
    pass


def dies_at(step: int, mark: Path, rank: int = 1):
    """Kills its rank at this step, once."""
    path, at, which = str(mark), step, rank

    def at_step(now):
        import os
        import signal

        import torch.distributed as dist

        if now == at and dist.get_rank() == which % dist.get_world_size() and not os.path.exists(path):
            open(path, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)

    return at_step


def breaks_at(step: int):
    """Ends the cell at this step on all ranks, which stay warm: what is on the disk then is what a death leaves."""
    at = step

    def at_step(now):
        if now == at:
            raise InterruptedError("the cell ends here")

    return at_step


def run(pool, namespace, folder, cell=CELL, every=2, **options):
    return CellRun(
        pool, cell, namespace, RunOptions(checkpoint=str(folder), every=every, **options), filename="<cell>"
    ).go()


def interrupted(pool, folder, step, *, cell=CELL, **options):
    """A run that ended at this step."""
    given = {name: options.pop(name) for name in ("dataset", "workers") if name in options}
    with pytest.raises(RankError, match="the cell ends here"):
        run(pool, notebook(at_step=breaks_at(step), **given), folder, cell, **options)


def assert_same(whole, resumed):
    """All that the cell left behind is equal, bit for bit."""
    assert {name: resumed[name] for name in SEEN} == {name: whole[name] for name in SEEN}
    assert torch.equal(resumed["total"], whole["total"])
    for name, value in whole["model"].state_dict().items():
        assert torch.equal(resumed["model"].state_dict()[name], value), name
    mine, theirs = resumed["optimizer"].state_dict(), whole["optimizer"].state_dict()
    assert mine["param_groups"] == theirs["param_groups"]
    assert all(
        torch.equal(mine["state"][at]["exp_avg"], theirs["state"][at]["exp_avg"]) for at in theirs["state"]
    )


@pytest.mark.parametrize(
    ("step", "rank"),
    [pytest.param(3, 1, marks=pytest.mark.whole), (6, 0), pytest.param(16, 1, marks=pytest.mark.whole)],
)
def test_a_run_that_lost_a_rank_goes_on_with_the_same_losses_bit_for_bit(pool, tmp_path, step, rank):
    whole = notebook()
    CellRun(pool, CELL, whole, filename="<cell>").go()
    with pytest.raises(RankError, match="SIGKILL"):
        run(pool, notebook(at_step=dies_at(step, tmp_path / "died", rank)), tmp_path)
    resumed = notebook(seed=1234)  # a notebook that has drawn other numbers since
    result = run(pool, resumed, tmp_path)
    written = (step - 1) // 2 * 2  # the last one that is surely whole; its successor may be, too
    assert any(f"after step {at}," in note for at in (written, written - 2) for note in result.notes)
    assert_same(whole, resumed)


def test_in_float16_it_goes_on_with_the_loss_scale_that_was_found(pool, tmp_path):
    steep = CELL.replace(
        "criterion(model(x), y)", "criterion(model(x), y) * 100"
    )  # overflows at the first scales
    plan = 'autocast(dtype="fp16")'
    whole = notebook()
    result = run(pool, whole, tmp_path / "whole", steep, plan=plan)
    assert int(str(result.effects[0]).split(" of ")[0].split()[-1]) > 2  # steps that were skipped to find it
    interrupted(pool, tmp_path, 9, cell=steep, plan=plan)
    resumed = notebook()
    run(pool, resumed, tmp_path, steep, plan=plan)
    assert_same(whole, resumed)


@pytest.mark.parametrize("workers", [0, 1])
def test_augmentation_draws_the_same_numbers_after_going_on(pool, tmp_path, workers):
    torch.manual_seed(5)
    noisy = Noisy(96)
    whole = notebook(dataset=noisy, workers=workers)
    CellRun(pool, CELL, whole, filename="<cell>").go()
    interrupted(pool, tmp_path, 10, dataset=noisy, workers=workers)
    resumed = notebook(dataset=noisy, workers=workers, seed=99)
    assert run(pool, resumed, tmp_path).notes
    assert_same(whole, resumed)


def test_ranks_that_die_are_started_again_by_themselves(pool, tmp_path):
    whole = notebook()
    CellRun(pool, CELL, whole, filename="<cell>").go()
    restarted = notebook(at_step=dies_at(9, tmp_path / "died"))
    result = run(pool, restarted, tmp_path, max_restarts=1)
    assert "Rank 1 was lost (it was killed by SIGKILL" in result.notes[0]
    assert_same(whole, restarted)


def test_what_a_cell_raises_itself_is_not_tried_again(pool, tmp_path):
    counted = tmp_path / "tried"
    cell = CELL + f"\nopen({str(counted)!r}, 'a').write('x')\nraise KeyError('wrong')\n"
    with pytest.raises(RankError, match="KeyError"):
        run(pool, notebook(), tmp_path, cell, max_restarts=3)
    assert len(counted.read_text()) == pool.ranks


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("batch", ["per-rank", "global"])
def test_another_number_of_ranks_goes_on_with_the_samples_that_are_left(
    pools, tmp_path, before, after, batch
):
    cell = CELL.replace("order.append(x[:, 0].tolist())", "order.append(gathered(x))")
    cell, kept = cell.replace("range(3)", "range(1)"), {"every": 1, "batch": batch}
    with pytest.raises(RankError, match="the cell ends here"):
        run(pools[before], notebook(at_step=breaks_at(4)) | {"gathered": gathered}, tmp_path, cell, **kept)
    saved = torch.load(newest(tmp_path), weights_only=True)
    over = [each for step in saved["ranks"][0]["variables"]["values"][("order",)] for each in step]
    resumed = notebook(seed=77) | {"gathered": gathered}
    result = run(pools[after], resumed, tmp_path, cell, **kept)
    assert f"{before} rank" in " ".join(result.notes)
    seen = [each for step in resumed["order"] for each in step]
    assert seen[: len(over)] == over
    assert len(over) >= 8
    assert sorted(seen[:96]) == list(range(96))
    assert len(seen) - 96 < 8 * after  # where the last step lacks batches it takes the first ones again


def gathered(x):
    """First columns of all ranks' samples."""
    import torch.distributed as dist

    parts = [None] * dist.get_world_size()
    dist.all_gather_object(parts, x[:, 0].int().tolist())
    return [each for part in parts for each in part]


def newest(folder: Path) -> Path:
    return max(folder.glob("step-*.pt"))


def test_loops_over_batches_in_a_function_are_left_at_the_end_of_an_epoch(pool, tmp_path):
    functions = """
def train_one_epoch():
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        at_step(len(losses))
"""
    cell = "for epoch in range(3):\n    train_one_epoch()\n"

    def made(**options):
        namespace = notebook(**options)
        exec(functions, namespace)
        return namespace

    whole = made()
    CellRun(pool, cell, whole, filename="<cell>").go()
    with pytest.raises(RankError, match="the cell ends here"):
        run(pool, made(at_step=breaks_at(BATCHES * 2 + 2)), tmp_path, cell)
    resumed = made(seed=8)
    result = run(pool, resumed, tmp_path, cell)
    assert any(f"after step {step}," in note for step in (BATCHES, 2 * BATCHES) for note in result.notes)
    assert resumed["losses"] == whole["losses"]


def test_a_phase_of_training_that_was_over_is_passed_by(pool, tmp_path):
    cell = CELL.replace("for epoch in range(3)", "for epoch in range(1)")
    cell = cell + "middle = losses[-1]\n" + cell[cell.index("for epoch") :].replace("range(1)", "range(2)")
    whole = notebook()
    CellRun(pool, cell, whole, filename="<cell>").go()
    interrupted(pool, tmp_path, 15, cell=cell)
    resumed = notebook(seed=4)
    run(pool, resumed, tmp_path, cell)
    assert whole["losses"] == resumed["losses"]
    assert len(whole["losses"]) == EPOCHS * BATCHES


@pytest.mark.parametrize("at", [3, 18], ids=["under way", "the last"])
def test_a_checkpoint_that_cannot_be_written_is_said_and_the_training_comes_home(pool, tmp_path, at):
    whole = notebook()
    CellRun(pool, CELL, whole, filename="<cell>").go()
    found = notebook(at_step=takes_the_folder_away_at(at, tmp_path / "checkpoints"))
    result = run(pool, found, tmp_path / "checkpoints")
    said = [note for note in result.notes if "could not be written" in note]
    assert said
    assert all(note.startswith("Trained on all the same, but --checkpoint") for note in said)
    assert said[0] in result.ranks[0].output
    assert_same(whole, found)


def takes_the_folder_away_at(step: int, folder: Path):
    """As a disk that is pulled out would: nothing can be written from then on, by root neither."""
    path, at = str(folder), step

    def at_step(now):
        import os

        import torch.distributed as dist

        if now == at and dist.get_rank() == 0:
            os.rename(path, path + " that was")
            open(path, "w").close()

    return at_step


def test_a_damaged_checkpoint_is_told_and_the_one_before_is_used(pool, tmp_path):
    whole = notebook()
    CellRun(pool, CELL, whole, filename="<cell>").go()
    interrupted(pool, tmp_path, 11)
    files = sorted(tmp_path.glob("step-*.pt"))
    content = bytearray(files[-1].read_bytes())
    content[len(content) // 2] ^= 0xFF  # one byte: its size and all else are right
    files[-1].write_bytes(content)
    (tmp_path / "step-000000099.pt").write_bytes(content[: len(content) // 3])
    torch.save({"mine": 1}, tmp_path / "step-000000098.pt")
    resumed = notebook(seed=5)
    notes = run(pool, resumed, tmp_path).notes
    assert "step-000000099.pt is damaged or no checkpoint" in notes[0]
    assert "step-000000098.pt was not written by" in notes[1]
    assert f"{files[-1].name} is damaged (a checksum is wrong)" in notes[2]
    assert_same(whole, resumed)


def test_a_folder_without_a_good_checkpoint_is_refused(pool, tmp_path):
    (tmp_path / "step-000000099.pt").write_text("no checkpoint at all")
    with pytest.raises(AccelError, match=r"none of them can be used: step-000000099.pt is damaged"):
        run(pool, notebook(), tmp_path)


def test_checkpoints_of_another_cell_are_refused_and_stay(pool, tmp_path):
    interrupted(pool, tmp_path, 9)
    files = {path: path.read_bytes() for path in tmp_path.glob("step-*.pt")}
    with pytest.raises(AccelError, match="they are of another cell"):
        run(pool, notebook(), tmp_path, CELL.replace("gamma=0.5", "gamma=0.4"))
    with pytest.raises(AccelError, match="they are of this cell with --batch per-rank"):
        run(pool, notebook(), tmp_path, batch="global")
    assert {path: path.read_bytes() for path in tmp_path.glob("step-*.pt")} == files


def test_another_model_is_refused_in_words(pool, tmp_path):
    interrupted(pool, tmp_path, 9)
    other = notebook()
    other["model"] = nn.Sequential(nn.Linear(8, 4))
    other["optimizer"] = torch.optim.Adam(other["model"].parameters(), lr=0.01)
    with pytest.raises(AccelError, match="model is not what it was"):
        run(pool, other, tmp_path)


def test_a_run_that_ended_well_begins_anew_and_takes_the_place_of_its_checkpoints(pool, tmp_path):
    first, second = notebook(), notebook()
    run(pool, first, tmp_path)
    kept = sorted(path.name for path in tmp_path.glob("step-*.pt"))
    assert kept == ["step-000000016.pt", "step-000000018.pt"]
    assert run(pool, second, tmp_path).notes == ()
    assert second["losses"] == first["losses"]
    interrupted(pool, tmp_path, 7)
    assert all(int(path.stem[5:]) <= 6 for path in tmp_path.glob("step-*.pt"))


def test_a_cell_without_a_loop_of_its_own_is_refused_before_anything_starts(tmp_path):
    pool = RankPool(2)
    with pytest.raises(AccelError, match="this cell has none"):
        CellRun(pool, "train()", notebook(), RunOptions(checkpoint=str(tmp_path)), filename="<cell>")
    with pytest.raises(AccelError, match="names no folder"):
        accel.ddp("pass", checkpoint=" ")
    with pytest.raises(AccelError, match="no checkpoint to start again from"):
        CellRun(pool, CELL, notebook(), RunOptions(max_restarts=1), filename="<cell>")
    assert not pool.pids


def test_batches_taken_by_next_are_refused(pool, tmp_path):
    cell = """
batches = iter(loader)
for step in range(5):
    x, y = next(batches)
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""
    with pytest.raises(AccelError, match=r"taken with next\(\)"):
        run(pool, notebook(), tmp_path, cell)


def test_an_optimizer_that_no_variable_leads_to_is_refused(pool, tmp_path):
    cell = CELL.replace("optimizer.step()", "hidden().step()")
    namespace = notebook()
    namespace["hidden"] = (lambda held: lambda: held)(namespace.pop("optimizer"))
    cell = cell.replace("scheduler = StepLR(optimizer, 1, gamma=0.5)", "").replace(
        "optimizer.zero_grad()", "model.zero_grad()"
    )
    with pytest.raises(AccelError, match="no variable of the cell leads to the Adam that steps"):
        run(pool, namespace, tmp_path, cell.replace("    scheduler.step()\n", ""))


def test_nothing_is_left_half_written(pool, tmp_path):
    interrupted(pool, tmp_path, 8)
    run(pool, notebook(), tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["finished", "step-000000016.pt", "step-000000018.pt"]
