"""A real IPython shell in this process, fresh for each test, that remembers what it showed."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from accel.workers.pool import WorkerPool

TRAINING = """
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
criterion = torch.nn.CrossEntropyLoss()
batches = [(torch.randn(4, 8), torch.randint(0, 2, (4,))) for _ in range(10)]

def step(x, y):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()

def train():
    for x, y in batches:
        loss = step(x, y)
    return loss
"""


class Shell(InteractiveShell):
    """IPython without history and colours; errors are remembered as they would be shown."""

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        self.tracebacks.append("\n".join(stb))

    def run(self, cell: str) -> Any:
        """Run a cell as a notebook does; what it shows is in `shown`, `tracebacks` and `printed` afterwards."""
        self.tracebacks: list[str] = []
        self.display_pub.outputs.clear()
        return self.run_cell(cell, store_history=True)

    @property
    def shown(self) -> list[str]:
        """The plain text of everything displayed, the value of the cell excepted."""
        return [output["data"]["text/plain"] for output in self.display_pub.outputs]


@pytest.fixture
def bare_shell(tmp_path, monkeypatch) -> Iterator[Shell]:
    """A shell that knows nothing of accel; its trials start workers when they need them, as there are no spares."""
    monkeypatch.setattr("accel.workbench.notebook_state.WorkerPool", lambda spares: WorkerPool(0))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    Shell.clear_instance()
    shell = Shell.instance(config=config)
    shell.tracebacks = []
    shell.display_pub = CapturingDisplayPublisher()
    yield shell
    shell.run_line_magic("unload_ext", "accel")
    Shell.clear_instance()
    atexit.unregister(shell.atexit_operations)  # or it, and what its cells made, would live to the end


@pytest.fixture
def shell(bare_shell: Shell) -> Shell:
    """A shell with the extension loaded, a small model and a training function."""
    assert bare_shell.run("%load_ext accel").success
    assert bare_shell.run(TRAINING).success
    return bare_shell
