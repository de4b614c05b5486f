"""A Trainer that calls only parts of a module: plans round the module's own call are refused with what to write."""

from __future__ import annotations

import pytest

from accel.errors import AccelError
from accel.workbench import Workbench

TRAINER = """
import torch
from torch import nn
class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Flatten(), nn.Linear(144, 2))
    def forward(self, x):
        return self.net(x)
    def training_step(self, x):
        return self.{called}(x).square().mean()
class Trainer:
    def fit(self, module, batches):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        for x in batches:
            module.zero_grad()
            module.training_step(x).backward()
            optimizer.step()
torch.manual_seed(0)
module, batches = Module(), torch.randn(4, 2, 3, 8, 8)
"""
CELL = "trainer = Trainer()\ntrainer.fit(module, batches)\n"


def profiled(called):
    namespace = {"__name__": "__main__"}
    exec(TRAINER.format(called=called), namespace)
    workbench = Workbench(namespace, spare_workers=0)
    workbench.profile(CELL)
    return workbench


@pytest.mark.parametrize("plan", ["channels_last", 'autocast(dtype="bf16")'])
def test_keep_says_what_the_trainer_calls_and_what_to_write(plan):
    workbench = profiled("net")
    with pytest.raises(AccelError, match=r"module itself was never called.*write self\(x\) in training_step"):
        workbench.keep(plan)
    assert not workbench.kept


def test_a_module_that_calls_itself_takes_the_plan():
    workbench = profiled("__call__")
    workbench.keep("channels_last")
    exec(CELL, workbench.namespace)
    ((name, took, evidence),) = workbench.status().proofs
    assert (name, took) == ("channels_last", True), evidence
    workbench.undo()
