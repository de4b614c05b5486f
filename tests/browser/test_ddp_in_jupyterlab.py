"""A data-parallel run in a real JupyterLab: lanes move while cells run beside it, Stop ends it and brings its state home."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

SETUP = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(512, 64), torch.randint(10, (512,))), batch_size=32, shuffle=True)
start = model[0].weight.detach().clone()
%load_ext accel
"""
TRAIN = """%%accel ddp -n 2 --background -o run
for epoch in range(1_000_000):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
"""
CELLS = (SETUP, TRAIN, "1 + 1", "run.state, run.result.steps > 0, not model[0].weight.equal(start)")
PREPARE, RUN, BESIDE, AFTER = range(4)


def steps(page) -> int:
    return int(page.get_by_test_id("lane-step").first.inner_text().split()[0])


def test_lanes_move_beside_other_cells_and_stop_brings_the_state_home(notebook, server, tmp_path) -> None:
    page = notebook.open(server.add_notebook("ddp.ipynb", *CELLS)).page
    notebook.run_cell(PREPARE)
    notebook.run_cell(RUN)
    expect(page.get_by_test_id("ddp-line")).to_contain_text("Training on 2 ranks", timeout=120_000)
    expect(page.get_by_test_id("lane")).to_have_count(2)
    expect(page.get_by_test_id("lane-step").first).to_have_text(re.compile("[1-9]"), timeout=60_000)
    before = steps(page)
    notebook.run_cell(BESIDE)  # the kernel is free
    assert notebook.outputs(BESIDE)[0]["data"]["text/plain"] == "2"
    page.wait_for_function(
        "before => parseInt(document.querySelector('[data-testid=lane-step]').textContent) > before",
        arg=before,
    )
    folder = Path(os.environ.get("ACCEL_SCREENSHOTS", tmp_path))
    for theme in ("light", "dark"):
        notebook.set_theme(f"JupyterLab {theme.capitalize()}")
        page.locator(".accel-lanes").screenshot(path=folder / f"ddp_{theme}.png")
    page.get_by_test_id("ddp-stop").click()
    expect(page.get_by_test_id("ddp-line")).to_contain_text("Stopped on 2 ranks", timeout=60_000)
    expect(page.get_by_test_id("ddp-notes")).to_contain_text(
        "The trained state is in your notebook's own objects."
    )
    expect(page.get_by_test_id("ddp-stop")).to_be_hidden()
    notebook.run_cell(AFTER)
    assert notebook.outputs(AFTER)[0]["data"]["text/plain"] == "('stopped', True, True)"
