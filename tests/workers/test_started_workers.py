"""Workers that were started with something of their own: they take no part in the turns of others."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from accel.workbench import Workbench
from accel.workers.messages import StepsDone
from accel.workers.worker import Worker

CELL = """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


def statuses(pid: int) -> list[str]:
    """Statuses of a process and its forked loader workers, once all are stopped or 30 seconds are over."""
    process, until = psutil.Process(pid), time.monotonic() + 30.0
    while True:
        found = [each.status() for each in (process, *process.children())]
        if set(found) == {psutil.STATUS_STOPPED} or time.monotonic() > until:
            return found
        time.sleep(0.01)


def test_between_its_turns_it_stands_still_and_its_loader_workers_too(monkeypatch):
    seen, own = [], Worker.receive

    def receive(worker, kind, *, timeout_s):
        answer = own(worker, kind, timeout_s=timeout_s)
        if worker.start and kind is StepsDone:
            seen.append(statuses(worker.pid))
        return answer

    monkeypatch.setattr(Worker, "receive", receive)
    data = TensorDataset(torch.randn(256, 32), torch.randint(4, (256,)))
    model = nn.Linear(32, 4)
    workbench = Workbench(
        {
            "loader": DataLoader(data, batch_size=16, num_workers=1), "model": model,
            "criterion": nn.CrossEntropyLoss(), "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        },
        spare_workers=0,
    )  # fmt: skip
    workbench.profile(CELL)
    row = workbench.try_("env_var('ANY=1')", budget_s=60)['env_var(set="ANY=1")']
    workbench.close()
    assert row.shown is not None, row.sentence
    assert len(seen) > 10
    assert all(set(each) == {psutil.STATUS_STOPPED} for each in seen)
    assert any(len(each) > 1 for each in seen), "none had a loader worker"


def test_a_worker_has_display_and_its_handles_as_a_notebook_does() -> None:
    lines = """
from accel.workload.notebook_module import give_display
from IPython.display import display as show
namespace = {"show": show}
give_display(namespace)
display(1, display_id=True).update(2)
namespace["show"](3, display_id=True).update(4)
from IPython.display import display
display(5, display_id="five").update(6)
assert display(7) is None
"""
    found = subprocess.run([sys.executable, "-c", lines], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["1", "3", "5", "7"]
