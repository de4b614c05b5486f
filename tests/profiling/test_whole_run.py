"""Facts about the run of a cell beside its steps."""

from __future__ import annotations

import ast

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.profiling.whole_run import read_whole_run
from accel.workload.capture import CellCapture

TRAIN = """
for x, y in loader:
    optimizer.zero_grad()
    criterion(model(x), y).backward()
    optimizer.step()
"""


def run(cell, **names):
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
    workload, recording = capture.finish()
    return read_whole_run(recording, workload)


def lines(whole_run):
    return {(each.line, each.calls) for each in whole_run.unused_forwards}


def test_training_alone_uses_every_graph():
    assert run(TRAIN).unused_forwards == ()


def test_a_validation_loop_with_gradients_on_uses_none():
    whole_run = run(TRAIN + "for x, y in loader:\n    model(x)\n")
    assert lines(whole_run) == {(7, 6)}
    (found,) = whole_run.unused_forwards
    assert 0 < found.share < 1
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
    assert 0 < start.share < 1


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
