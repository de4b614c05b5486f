"""The whole loop on a CUDA device: profile, try, keep, undo. Skipped, with the reason, where there is none."""

from __future__ import annotations

import pytest
import torch

from accel.accelerations import CATALOGUE
from accel.accelerations.started import Started
from accel.workbench import Workbench

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device on this machine"),
]

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from accel.labs import CNN

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(1280, 1, 28, 28), torch.randint(0, 10, (1280,))), batch_size=64)
model, criterion = CNN().cuda(), nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
losses = []
"""
CELL = """
for images, labels in loader:
    optimizer.zero_grad()
    loss = criterion(model(images.cuda()), labels.cuda())
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
"""


@pytest.fixture
def workbench():
    namespace = {"__name__": "__main__"}
    exec(compile(SETUP, "<setup>", "exec"), namespace)
    bench = Workbench(namespace, spare_workers=0)
    yield bench
    bench.close()


def test_kernels_stand_under_the_operations_that_launched_them(workbench):
    profile = workbench.profile(CELL)
    convolutions = [row for row in profile.ops if "conv" in row.op]
    assert sum(row.device_ms for row in convolutions) > 0


def test_copies_to_the_device_are_a_phase(workbench):
    assert "copy" in {phase.name for phase in workbench.profile(CELL).phases}


def test_a_trial_on_the_device_answers_and_proves_its_effect(workbench):
    workbench.profile(CELL)
    row = workbench.try_('autocast(dtype="bf16")+channels_last+fused_optimizer', budget_s=40).rows[0]
    assert row.state == "done"
    assert all(took for _, took, _ in row.proofs), row.proofs


KEPT_IN_ONE_PROCESS = [
    entry.name
    for entry in CATALOGUE
    if not (
        getattr(entry, "needs_ranks", False)
        or getattr(entry, "makes_ranks", False)
        or issubclass(entry, Started)
    )
]


@pytest.mark.parametrize("name", KEPT_IN_ONE_PROCESS)
def test_undo_gives_back_the_losses_that_would_have_been(workbench, name):
    workbench.profile(CELL)
    if any(each.name == name and each.reasons for each in workbench.accelerations()):
        pytest.skip(f"{name} does not apply on this device")
    state = {key: value.clone() for key, value in workbench.namespace["model"].state_dict().items()}
    workbench.keep(name)
    workbench.undo()
    now = workbench.namespace["model"].state_dict()
    assert all(torch.equal(state[key], now[key]) for key in state)
