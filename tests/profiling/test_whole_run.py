"""Facts about the run of a cell beside its steps."""

from __future__ import annotations

import ast
import time
from dataclasses import replace
from multiprocessing.util import Finalize

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.profiling.whole_run import read_whole_run
from accel.workload.capture import CellCapture
from accel.workload.phase_record import Mark

ENDING_S = 0.2
TRAIN = """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""


def recorded(cell, **names):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    data = TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,)))
    namespace = {
        "torch": torch, "model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "criterion": nn.CrossEntropyLoss(), "loader": DataLoader(data, 4), "X": data.tensors[0], "Y": data.tensors[1],
    } | names  # fmt: skip
    capture = CellCapture(cell, cell, namespace)
    tree = capture.transform(ast.parse(cell))
    with capture:
        exec(compile(tree, capture.filename, "exec"), namespace)
    return capture.finish()


def run(cell, **names):
    workload, recording = recorded(cell, **names)
    return read_whole_run(recording, workload)


def ends_slowly(worker):
    Finalize(None, time.sleep, (ENDING_S,), exitpriority=1)


def lines(whole_run):
    return {(each.line, each.calls) for each in whole_run.unused_forwards}


def test_training_alone_uses_every_graph():
    assert run(TRAIN).unused_forwards == ()


def test_a_validation_loop_with_gradients_on_uses_none():
    whole_run = run(TRAIN + "for x, y in loader:\n    model(x)\n")
    assert lines(whole_run) == {(7, 6)}
    (found,) = whole_run.unused_forwards
    assert found.ms > 0
    assert found.was_training


def test_validation_between_epochs_of_the_same_loader_is_told_from_training():
    epoch = "for epoch in range(3):" + (TRAIN + "for x, y in loader:\n    model(x)\n").replace("\n", "\n    ")
    assert lines(run(epoch)) == {(7, 18)}


def test_one_function_for_both_is_told_apart_by_the_mode_of_the_model():
    cell = """
def run_epoch(train):
    model.train(train)
    for x, y in loader:
        loss = criterion(model(x), y)
        if train:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
for epoch in range(2):
    run_epoch(True)
    run_epoch(False)
"""
    (found,) = run(cell).unused_forwards
    assert (found.line, found.function, found.calls, found.was_training) == (5, "run_epoch", 12, False)


def test_a_single_validation_batch_after_each_epoch_is_found():
    epoch = "for epoch in range(3):" + (TRAIN + "loss = criterion(model(X), Y)\n").replace("\n", "\n    ")
    assert lines(run(epoch)) == {(6, 3)}


@pytest.mark.parametrize("off", ["torch.no_grad()", "torch.inference_mode()"])
def test_validation_without_gradients_is_not_found(off):
    assert run(TRAIN + f"with {off}:\n    for x, y in loader:\n        model(x)\n").unused_forwards == ()


def test_two_forwards_for_one_backward_are_both_used():
    cell = TRAIN.replace(
        "criterion(model(x), y)", "(criterion(model(x), y) +\n        criterion(model(x + 1), y))"
    )
    assert run(cell).unused_forwards == ()


def test_one_backward_for_a_whole_episode_uses_all_its_forwards():
    cell = """
for episode in range(3):
    total = 0
    for t in range(5):
        total = total + criterion(model(X[:4] + t), Y[:4])
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
"""
    assert run(cell).unused_forwards == ()


def test_two_models_before_one_backward_are_both_used():
    critic = nn.Linear(8, 3)
    cell = TRAIN.replace(
        "criterion(model(x), y)", "(criterion(model(x), y)\n        + criterion(critic(x), y))"
    )
    assert run(cell, critic=critic).unused_forwards == ()


def test_a_closure_and_a_recomputed_forward_are_used():
    cell = """
from torch.utils.checkpoint import checkpoint
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
for x, y in loader:
    def closure():
        optimizer.zero_grad()
        loss = criterion(checkpoint(model, x, use_reentrant=False), y)
        loss.backward()
        return loss
    optimizer.step(closure)
"""
    assert run(cell).unused_forwards == ()


def test_page_faults_are_counted_where_fresh_memory_comes_and_goes():
    pytest.importorskip("resource", reason="this system does not tell page faults")
    heavy = run(
        TRAIN.replace(
            "optimizer.step()",
            "optimizer.step(); __import__('mmap').mmap(-1, 4_000_000).write(b'x' * 4_000_000)",
        )
    )
    light = run(TRAIN)
    assert heavy.page_faults_per_step > light.page_faults_per_step + 50


def test_each_start_of_worker_processes_is_counted():
    data = TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,)))
    whole_run = run(
        "for epoch in range(2):" + TRAIN.replace("\n", "\n    "), loader=DataLoader(data, 4, num_workers=1)
    )
    (start,) = whole_run.loader_starts
    assert (start.loader, start.workers, start.starts) == ("loader", 1, 2)
    assert start.ms > 0


def spans(key, *lasting_ms):
    """Marks of data phases that last so long."""
    marks = []
    for ms in lasting_ms:
        marks += [Mark(0, True, "data", key), Mark(round(ms * 1e6), False, "data", key)]
    return marks


@pytest.mark.parametrize(
    ("fetches", "more_ms"),
    [((5, 1, 1, 1, 1, 4), 4 + 3), ((5, 1, 1, 1, 1), 4), ((1, 1, 1, 1, 1, 4), 3), ((), 0)],
    ids=["all", "left with break", "the end alone", "never read"],
)
def test_starting_and_ending_workers_is_what_the_first_and_last_fetch_take_longer(fetches, more_ms):
    data = TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,)))
    loader = DataLoader(data, 4, num_workers=1)
    workload, recording = recorded(TRAIN, loader=loader)
    epoch = [*spans(-id(loader), 10), *spans(id(loader), *fetches)]
    (start,) = read_whole_run(replace(recording, marks=2 * epoch), workload).loader_starts
    assert (start.starts, start.ms) == (2, pytest.approx(2 * (10 + more_ms)))


def test_two_loaders_read_side_by_side_each_have_their_own_starts():
    data = TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,)))
    loader, other = (DataLoader(data, 4, num_workers=1) for _ in range(2))
    both = (
        "for (a, b), _ in zip(loader, other):\n    criterion(model(a), b).backward()\n    optimizer.step()\n"
    )
    workload, recording = recorded(TRAIN + both, loader=loader, other=other)
    starts = [*spans(-id(loader), 10), *spans(-id(other), 20)]
    fetches = [span for ms in (5, 1, 1, 4) for each in (loader, other) for span in spans(id(each), ms)]
    marks = 2 * [*starts, *fetches]
    found = {
        start.loader: start.ms
        for start in read_whole_run(replace(recording, marks=marks), workload).loader_starts
    }
    assert found["loader"] == pytest.approx(2 * (10 + 2.5 + 1.5))
    assert found["other"] == pytest.approx(2 * (20 + 2.5 + 1.5))


def test_the_fetch_that_finds_no_batch_waits_for_the_workers_to_end():
    data = TensorDataset(torch.randn(24, 8), torch.randint(0, 3, (24,)))
    loader = DataLoader(data, 4, num_workers=1, worker_init_fn=ends_slowly)
    _, recording = recorded(TRAIN, loader=loader)
    last = [mark.time_ns for mark in recording.marks if mark.phase == "data"][-2:]
    assert (last[1] - last[0]) / 1e9 > 0.9 * ENDING_S


def test_a_loader_without_workers_has_no_starts():
    assert run(TRAIN).loader_starts == ()


def test_steps_that_compile_late_are_told():
    model = torch.compile(nn.Linear(8, 3), backend="eager", dynamic=False)
    data = TensorDataset(torch.randn(22, 8), torch.randint(0, 3, (22,)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    whole_run = run(TRAIN, model=model, optimizer=optimizer, loader=DataLoader(data, 4))
    ((number, ms),) = whole_run.late_compiling
    assert number == 5
    assert ms > 0
