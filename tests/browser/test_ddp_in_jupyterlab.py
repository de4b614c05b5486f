"""A data-parallel run in a real JupyterLab: lanes move while cells run beside it, Stop ends it and brings its state home."""

from __future__ import annotations

import re

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
IN_FRONT = TRAIN.replace("--background -o run", "-o answer")
CELLS = (SETUP, TRAIN, "1 + 1", "run.state, run.result.steps > 0, not model[0].weight.equal(start)", "%accel panel", IN_FRONT,
         "answer.was_stopped, answer.steps > 0")  # fmt: skip
PREPARE, RUN, BESIDE, AFTER, PANEL, FOREGROUND, STOPPED = range(7)
FUNCTION = """
import accel
def train(epochs):
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
    return "trained"
accel.ddp(lambda: train(1_000_000), n=2)
"""


def wait_until_it_trains(page, lanes) -> None:
    expect(lanes.get_by_test_id("ddp-line")).to_contain_text("Training on 2 ranks", timeout=120_000)
    expect(lanes.get_by_test_id("lane-step").first).to_have_text(re.compile("[1-9]"), timeout=60_000)


def wait_until_lanes_move(lanes) -> None:
    before = lanes.get_by_test_id("lane-step").first.inner_text()
    expect(lanes.get_by_test_id("lane-step").first).not_to_have_text(before, timeout=30_000)


def test_lanes_move_beside_other_cells_and_stop_brings_the_state_home(notebook, server) -> None:
    page = notebook.open(server.add_notebook("ddp.ipynb", *CELLS)).page
    notebook.run_cell(PREPARE)
    notebook.run_cell(PANEL)
    notebook.run_cell(RUN)
    own, of_panel = notebook.cell(RUN).locator(".accel-lanes"), page.locator(".accel-workbench .accel-lanes")
    wait_until_it_trains(page, own)
    expect(own.get_by_test_id("lane")).to_have_count(2)
    notebook.run_cell(BESIDE)  # the kernel is free
    assert notebook.outputs(BESIDE)[0]["data"]["text/plain"] == "2"
    wait_until_lanes_move(own)
    of_panel.scroll_into_view_if_needed()
    wait_until_lanes_move(of_panel)
    of_panel.get_by_test_id("ddp-fold").press("Enter")
    expect(of_panel.get_by_test_id("lane").first).to_be_hidden()
    of_panel.get_by_test_id("ddp-stop").click()
    expect(own.get_by_test_id("ddp-line")).to_contain_text("Stopped on 2 ranks", timeout=60_000)
    expect(own.get_by_test_id("ddp-notes")).to_contain_text(
        "The trained state is in your notebook's own objects."
    )
    expect(own.get_by_test_id("ddp-stop")).to_be_hidden()
    expect(of_panel.get_by_test_id("ddp-stop")).to_be_hidden()
    notebook.run_cell(AFTER)
    assert notebook.outputs(AFTER)[0]["data"]["text/plain"] == "('stopped', True, True)"


def test_a_cell_that_waits_for_its_ranks_has_lanes_that_move_and_a_stop_button_too(notebook, server) -> None:
    page = notebook.open(server.add_notebook("ddp_in_front.ipynb", SETUP, IN_FRONT, CELLS[STOPPED], FUNCTION)).page
    notebook.run_cell(0)
    for cell, told in ((1, "Stopped on 2 ranks"), (3, "The trained state is in your notebook's own objects.")):
        notebook.run_cell(cell, wait=False)
        lanes = notebook.cell(cell).locator(".accel-lanes")
        wait_until_it_trains(page, lanes)
        wait_until_lanes_move(lanes)
        lanes.get_by_test_id("ddp-stop").click()
        expect(notebook.cell(cell)).to_contain_text(told, timeout=60_000)
        expect(lanes).to_have_count(0)
    notebook.run_cell(2)
    assert notebook.outputs(2)[0]["data"]["text/plain"] == "(True, True)"
    assert notebook.errors_in_cells() == []
