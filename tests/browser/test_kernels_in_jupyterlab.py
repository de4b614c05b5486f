"""A kernel that starts with what no running one can take, chosen in a real JupyterLab."""

from __future__ import annotations

import pytest
from tests.environments.real import PLACE, real_environment

pytestmark = [pytest.mark.browser, pytest.mark.environment]

CELL = f"""
import os
os.environ["ACCEL_ENVIRONMENTS"] = {str(PLACE)!r}
import torch
from torch import nn
model, criterion = nn.Linear(64, 8), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
images, labels = torch.randn(32, 64), torch.randint(8, (32,))
"""
PROFILE = """%%accel profile
for _ in range(12):
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
"""
KEEP = "%accel keep intel_openmp --as-kernel intels_openmp"
SHOWN = """
import os, torch
from accel.machine.reading_software import owner_of
print(os.environ["KMP_BLOCKTIME"], owner_of("GOMP_parallel"))
"""


def test_the_kernel_that_was_installed_starts_and_shows_its_variables_and_its_runtime(
    notebook, server, monkeypatch
):
    real_environment("openmp", monkeypatch)
    notebook.open(server.add_notebook("install.ipynb", CELL, "%load_ext accel", PROFILE, KEEP))
    for index in range(4):
        notebook.run_cell(index)
    assert notebook.errors_in_cells() == []
    assert "Kernel, Change Kernel, intels_openmp" in str(notebook.outputs(3))
    notebook.open(server.add_notebook("started.ipynb", SHOWN, kernel="intels_openmp"))
    notebook.run_cell(0)
    assert notebook.errors_in_cells() == []
    blocktime, runtime = notebook.outputs(0)[0]["text"].split()
    assert int(blocktime) == 1
    assert runtime.startswith(str(PLACE))
    assert runtime.endswith("libiomp5.so")
