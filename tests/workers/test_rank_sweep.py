"""A sweep in real ranks: times without evaluation, quality of what was trained, and a notebook that stays as it was."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.distributed.cells.run_options import RunOptions
from accel.distributed.data_parallel.data_parallel import DataParallel
from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.step_lane import StepLane
from accel.distributed.trials.evaluation_clock import EvaluationClock
from accel.distributed.trials.rank_quality import quality_in_rank
from accel.errors import AccelError
from accel.workbench import Workbench
from accel.workbench.rank_sweep import sweep_of
from accel.workbench.sweep_quality import find_quality
from accel.workers.messages import QualityQuestion
from accel.workload.unprofiled_cell import training_loader_of, unprofiled_workload

CELL = """
for epoch in range(2):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(model(x), y).backward()
        optimizer.step()
        losses.append(1)
    model.eval()
    with torch.no_grad():
        for x, y in val_loader:
            model(x)
            time.sleep(0.05)
    open("last_epoch.txt", "w").write(str(epoch))
"""
SAMPLES, HELD_OUT = 96, 64


def notebook() -> dict[str, object]:
    import time

    torch.manual_seed(0)
    x = torch.randn(SAMPLES + HELD_OUT, 6)
    y = (x[:, 0] > 0).long()
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 2))
    return {
        "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9),
        "criterion": nn.CrossEntropyLoss(),
        "train_loader": DataLoader(TensorDataset(x[:SAMPLES], y[:SAMPLES]), batch_size=8, shuffle=True),
        "val_loader": DataLoader(TensorDataset(x[SAMPLES:], y[SAMPLES:]), batch_size=8),
        "losses": [], "torch": torch, "time": time, "__name__": "__main__",
    }  # fmt: skip


def state_of(names) -> list[object]:
    """Everything a run could move, bit for bit."""
    momenta = [state["momentum_buffer"] for state in names["optimizer"].state.values()]
    tensors = [*names["model"].state_dict().values(), *momenta, torch.get_rng_state()]
    modes = [module.training for module in names["model"].modules()]
    return [
        [t.numpy().tobytes() for t in tensors],
        modes,
        list(names["losses"]),
        random.getstate(),
        sorted(names),
    ]


def how_to_stop(workbench) -> str:
    run = workbench.ranks.latest
    return run.how_to_stop if run is not None else ""


@pytest.fixture(scope="module")
def bench():
    workbench = Workbench(notebook(), spare_workers=0)
    yield workbench
    workbench.close()


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A folder of the user's: not below the one for temporary files, which is left alone."""
    for name in ("project", "temporary"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path / "project"


def test_one_and_two_processes_are_timed_and_judged_and_nothing_of_the_notebook_changes(bench, own_folder):
    names, before, drawn, told = bench.namespace, state_of(bench.namespace), [], set()
    sweep = sweep_of(
        bench,
        CELL,
        processes="1,2",
        threads="1,99",
        show=lambda sweep, now: (drawn.append(len(sweep.measured)), told.add(how_to_stop(bench))),
    )
    assert any("Interrupt ends the sweep" in each for each in told)
    assert not any("--background" in each for each in told)
    assert state_of(names) == before
    assert list(own_folder.iterdir()) == []  # what the cell writes went with the ranks
    one, two = sweep.measured
    assert (one.configuration.label, two.configuration.label) == ("1 × 1", "2 × 1")
    assert [bool(row.reason) for row in sweep.rows] == [False, True, False, True]
    steps = 2 * SAMPLES // 8
    assert (one.runs[0].steps, two.runs[0].steps) == (steps, steps // 2)
    assert one.samples == two.samples == 2 * SAMPLES  # what was evaluated is not among them
    assert sweep.metric == "accuracy"
    assert "accuracy: share of right answers on val_loader" in str(sweep)
    assert all(0.6 < row.quality <= 1 for row in (one, two))
    assert one.communication_share == 0 < two.communication_share
    assert {0, 1} <= set(drawn)
    assert not bench.ranks.pids  # they had led the cell's files away, and ended


def test_steps_bound_a_run_and_rates_are_compared(bench, own_folder):
    endless = CELL.replace("range(2)", "range(10**6)")
    sweep = sweep_of(
        bench, endless, processes="1", threads="1", steps=15, held_out="val_loader", metric="loss"
    )
    (row,) = sweep.measured
    assert (row.runs[0].steps, row.samples) == (15, 15 * 8)
    assert row.samples_per_s > 0
    assert row.quality > 0
    assert "Each run ended after 15 steps" in str(sweep)
    assert bench.ranks.last_line == ""  # a sweep is no run of the user's


def test_evaluation_is_neither_in_the_time_of_training_nor_are_its_samples():
    names, page = notebook(), RankPage(1)
    with DataParallel(page, rank=0, world_size=1, namespace=names, options=RunOptions()):
        exec(CELL.partition("    open(")[0], names)
    lane = page.lane(0)
    assert lane.samples == 2 * SAMPLES
    between_epochs = HELD_OUT // 8 * 0.05  # the second evaluation is after the last step
    assert between_epochs <= lane.evaluation_s < lane.seconds
    assert lane.training_s == pytest.approx(lane.seconds - lane.evaluation_s)
    assert 0 < lane.first_step_s < lane.training_s
    page.close()


def test_a_frozen_model_that_is_called_for_a_batch_is_part_of_the_training(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("accel.distributed.trials.evaluation_clock.time.perf_counter", lambda: now[0])
    clock = EvaluationClock()

    def after(seconds: float, name: str) -> None:
        now[0] += seconds
        clock.phase(name)

    clock.batch(is_there=True)
    after(1, "evaluation")  # a teacher
    after(2, "backward")
    assert clock.taken() == 0
    clock.batch(is_there=False)
    after(4, "evaluation")
    after(8, "data")
    assert clock.taken() == 8
    clock.loop(begins=True)
    after(16, "evaluation")
    now[0] += 32
    clock.loop(begins=False)
    after(64, "data")  # the model's call began to evaluate, and nothing of the training has begun since
    assert clock.taken() == 112


def test_what_is_named_and_is_not_there_is_refused_and_what_is_not_found_is_told(bench):
    with pytest.raises(AccelError, match="no held-out loader of that name"):
        sweep_of(bench, CELL, processes="1", threads="1", held_out="test_loader")
    with pytest.raises(AccelError, match="no cell that trains was profiled yet"):
        sweep_of(bench, processes="1")
    with pytest.raises(AccelError, match="they need"):
        sweep_of(bench, CELL, processes="99", threads="99")


def test_a_function_and_one_number_are_understood_or_refused_with_what_to_write(bench):
    def train() -> None: ...

    with pytest.raises(AccelError, match=r'Write accel.sweep\("train\(\)"\)'):
        sweep_of(bench, train, processes=1)
    with pytest.raises(AccelError, match="they need"):
        sweep_of(bench, CELL, processes=99, threads=99, backends="gloo")


def test_a_file_that_the_cell_removes_in_a_sweep_stays_in_the_users_folder(bench, own_folder):
    (own_folder / "old.txt").write_text("kept")
    removing = "import os\nos.remove('old.txt')\nassert not os.path.exists('old.txt')\n"
    swept = sweep_of(bench, f"{removing}{CELL}", processes="1", threads="1")
    assert [row.reason for row in swept.rows] == [""]
    assert (own_folder / "old.txt").read_text() == "kept"


def test_a_cell_that_was_not_profiled_tells_its_objects_by_what_it_reads():
    names = notebook()
    exec(
        "def fit():\n    for x, y in train_loader: criterion(model(x), y).backward(); optimizer.step()", names
    )
    workload = unprofiled_workload("fit()", "<cell>", names)
    roles = {role.name: role.kind for role in workload.roles}
    assert roles == {
        "train_loader": "loaders", "criterion": "criteria", "model": "models", "optimizer": "optimizers"
    }  # fmt: skip
    assert training_loader_of(workload) == "train_loader"


STEP = "    optimizer.zero_grad(); criterion(model(x), y).backward(); optimizer.step()"


def held_out_of(cell: str, **more: object) -> str:
    """The loader that quality would be taken on, or "" and why there is none."""
    names = {**notebook(), **more}
    workload = unprofiled_workload(cell, "<cell>", names)
    found = find_quality(workload, training_loader_of(workload), was_profiled=False)
    return found.question.held_out if found.question else found.reason


def test_what_an_unprofiled_cell_may_train_on_is_never_taken_for_held_out_data():
    digits = notebook()["train_loader"].dataset
    parts = torch.utils.data.random_split(digits, [64, 32])
    data = {"digits": digits, "DataLoader": DataLoader, "loader": DataLoader(digits), "train_loader": None}
    makes = f"dl = DataLoader(digits)\nfor x, y in dl:\n{STEP}"
    assert held_out_of(makes, **data) == "val_loader"
    assert held_out_of(f"{makes}\nfor x, y in val_loader: model(x)", **data) == "val_loader"
    none = held_out_of(makes, **data, val_loader=DataLoader(digits))
    assert "is unknown without a profile" in none
    assert "is unknown" in held_out_of(makes, **data, val_loader=None)
    trainer = SimpleNamespace(data=digits, fit=lambda: None)
    assert "is unknown" in held_out_of("trainer.fit()", **data, val_loader=None, trainer=trainer)
    split = {"part": parts[0], "val_loader": DataLoader(parts[1]), "loader": None, "train_loader": None}
    own = makes.replace("digits", "part")
    assert held_out_of(own, DataLoader=DataLoader, **split) == "val_loader"


def test_what_a_cell_prepares_before_its_first_batch_is_no_training(monkeypatch):
    now = [0.0]
    clock = SimpleNamespace(perf_counter=lambda: now[0], monotonic=lambda: now[0])
    monkeypatch.setattr("accel.distributed.ranks.step_lane.time", clock)
    page = RankPage(1)
    lane = StepLane(page, 0)
    now[0] = 40.0  # reading files, building the model
    lane.took(torch.zeros(8, 6))
    now[0] = 42.0
    lane.stepped(None)
    lane.is_done_with_batch()
    now[0] = 43.0  # waiting for the next one is training
    lane.took(torch.zeros(8, 6))
    now[0] = 45.0
    lane.stepped(None)
    assert (page.lane(0).seconds, page.lane(0).samples) == (5.0, 16)
    page.close()


def test_in_a_distillation_the_student_is_judged_though_the_cell_names_its_teacher_first():
    names = notebook()
    student = nn.Linear(6, 2)
    with torch.no_grad():  # it answers as the labels are
        student.weight.zero_()
        student.weight[1, 0] = 1.0
        student.bias.zero_()
    names["teacher"] = nn.Linear(6, 2)
    with torch.no_grad():  # it answers the opposite
        names["teacher"].weight.copy_(-student.weight)
        names["teacher"].bias.zero_()
    question = QualityQuestion(
        metric="accuracy", is_built_in=True, arguments=2, held_out="val_loader", model="teacher", model_class="Linear",
        criterion="criterion", training_loader="train_loader", seed=0, start="same", repeats=False,
    )  # fmt: skip
    found, updated = [names["teacher"], student], {id(each) for each in student.parameters()}
    value, why = quality_in_rank(question, names, found, updated, lambda: None)
    assert (value, why) == (1.0, "")
