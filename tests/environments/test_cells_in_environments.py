"""A cell of the notebook in another interpreter: an overlay of this one, and Intel's libraries where they are."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from accel.environments.creating import adopt
from accel.environments.environment import Environment, place, write
from accel.errors import AccelError
from accel.workbench import Workbench
from tests.environments.real import real_environment
from tests.workers.conftest import trials_with

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
data = TensorDataset(torch.randn(320, 3, 16, 16), torch.randint(0, 5, (320,)))
loader = DataLoader(data, batch_size=32)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 16, 3), nn.Linear(16 * 14 * 14, 5)
    def forward(self, x):
        return self.head(self.conv(x).relu().flatten(1))

model, criterion = Net(), nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
"""
CELL = """
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.fixture
def workbench():
    namespace = {"__name__": "__main__"}
    exec(compile(SETUP, "<setup>", "exec"), namespace)
    bench = Workbench(namespace, spare_workers=0)
    bench.profile(CELL)
    yield bench
    bench.close()


@pytest.fixture
def overlay(tmp_path, monkeypatch):
    """An interpreter of its own that finds this one's packages: what is real of it is its start, its path and its handshake."""
    monkeypatch.setenv("ACCEL_ENVIRONMENTS", str(tmp_path / "environments"))
    folder = tmp_path / "overlay"
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    packages = [each for each in sys.path if Path(each).name == "site-packages"]
    (site / "base.pth").write_text("\n".join(packages))
    adopted = adopt(str(folder / "bin" / "python"), name="overlay")
    told = replace(adopted, versions={"torch": "2.99.0"})  # what it had when it was made
    write(told, place() / "overlay")
    return told


ODD = """
import os, sys
home = sys.executable

def made():
    if sys.executable != home:
        raise AttributeError("no ConvertFrameBox there")
    return Odd()

class Odd:
    def __reduce__(self):
        return made, ()

odd = Odd()
"""


@pytest.mark.fresh_interpreters
def test_what_cannot_be_put_together_there_is_named_with_what_to_do(overlay):
    namespace = {"__name__": "__main__"}
    exec(compile(SETUP + ODD, "<setup>", "exec"), namespace)
    bench = Workbench(namespace, spare_workers=0)
    try:
        bench.profile(CELL + "    odd\n")
        why = "cannot be put together there: .*no ConvertFrameBox there.*Build that object in the cell itself"
        with pytest.raises(AccelError, match=f"(?s){why}"):
            bench.try_('torch_version("2.99")', budget_s=400, timeout_s=200)
    finally:
        bench.close()


@pytest.mark.fresh_interpreters
def test_a_cell_runs_in_the_python_of_an_environment_and_the_row_names_it(workbench, overlay, monkeypatch):
    trials_with(monkeypatch, can_be_steady=False)
    ladder = workbench.try_('torch_version("2.99")', "channels_last", timeout_s=200)
    row = ladder['torch_version(version="2.99")']
    assert row.environment == "overlay"
    assert "(in overlay)" in str(ladder)
    assert row.quality.following in ("same", "follows")
    assert row.proofs == (("torch_version", False, f"torch {torch.__version__}"),), "it has another now"
    assert ladder["channels_last"].environment == ""


@pytest.mark.fresh_interpreters
def test_an_environment_that_goes_in_the_meantime_costs_its_row_and_no_other(workbench, overlay, monkeypatch):
    monkeypatch.setattr(Environment, "why_not", "")  # as it was a moment ago
    Path(overlay.python).unlink()
    trials_with(monkeypatch, can_be_steady=False)
    ladder = workbench.try_('torch_version("2.99")', "channels_last", timeout_s=200)
    assert ladder['torch_version(version="2.99")'].state == "failed"
    assert "its Python is gone" in ladder['torch_version(version="2.99")'].sentence
    assert "%accel env remove overlay" in str(ladder)
    assert ladder["channels_last"].shown is not None


@pytest.mark.environment
@pytest.mark.fresh_interpreters
@pytest.mark.timeout(900)
def test_intels_libraries_and_another_torch_are_one_ladder_with_the_notebooks_own(workbench, monkeypatch):
    made = real_environment("intel", monkeypatch)
    assert made.versions["torch"].startswith("2.8.0")
    bf16 = ['ipex(dtype="bf16")'] if workbench.machine.has_cpu_bf16 else []
    ladder = workbench.try_(
        "ipex", *bf16, 'torch_version("2.8")', "intel_openmp", "channels_last", budget_s=240
    )
    print(ladder)
    for row in ladder.rows:
        if row.plan != "baseline":
            assert row.state == "done", row.sentence
            assert all(took for _, took, _ in row.proofs), row.proofs
            if "bf16" in row.plan:
                assert abs(row.quality.lost) < 0.005, (
                    row.quality
                )  # parameters are rounded: single steps part by 2 %
            else:
                assert row.quality.following in ("same", "follows"), row.quality
    assert {row.environment for row in ladder.rows if "ipex" in row.plan or "torch" in row.plan} == {"intel"}
    done = subprocess.run([made.python, "-I", "-c", "import accel"], capture_output=True, check=False)
    assert done.returncode, "accel is not installed there: a worker gets its folder"
