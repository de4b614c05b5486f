"""A data-parallel run in a real JupyterLab: lanes move while cells run beside it, Stop ends it and brings its state home."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

PATIENCE_MS = 120_000  # the ranks compute on all cores, and other tests run next to them
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
LOOK = "run.state, run.result.steps > 0, not model[0].weight.equal(start)"
CELLS = (SETUP, TRAIN, "1 + 1", LOOK, "%accel panel")
PREPARE, RUN, BESIDE, AFTER, PANEL = range(5)
STATE_IS_HOME = "The trained state is in your notebook's own objects."


def wait_until_it_trains(lanes) -> None:
    expect(lanes.get_by_test_id("ddp-line")).to_contain_text("Training on 2 ranks", timeout=PATIENCE_MS)
    expect(lanes.get_by_test_id("lane-step").first).to_have_text(re.compile("[1-9]"), timeout=60_000)


def wait_until_lanes_move(lanes) -> None:
    before = lanes.get_by_test_id("lane-step").first.inner_text(timeout=PATIENCE_MS)
    expect(lanes.get_by_test_id("lane-step").first).not_to_have_text(before, timeout=PATIENCE_MS)


def test_lanes_move_beside_other_cells_and_stop_brings_the_state_home(notebook, server) -> None:
    page = notebook.open(server.add_notebook("ddp.ipynb", *CELLS)).page
    page.set_viewport_size({"width": 1200, "height": 5000})
    notebook.run_cell(PREPARE)
    notebook.run_cell(PANEL)
    notebook.run_cell(RUN)
    own, of_panel = notebook.cell(RUN).locator(".accel-lanes"), page.locator(".accel-workbench .accel-lanes")
    wait_until_it_trains(own)
    expect(own.get_by_test_id("lane")).to_have_count(2)
    notebook.run_cell(BESIDE)  # the kernel is free
    assert notebook.outputs(BESIDE)[0]["data"]["text/plain"] == "2"
    wait_until_lanes_move(own)
    page.get_by_test_id("tab-machine").click()
    wait_until_lanes_move(of_panel)
    of_panel.get_by_test_id("ddp-fold").press("Enter")
    expect(of_panel.get_by_test_id("lane").first).to_be_hidden()
    of_panel.get_by_test_id("ddp-stop").click()
    expect(own.get_by_test_id("ddp-line")).to_contain_text("Stopped on 2 ranks", timeout=60_000)
    expect(own.get_by_test_id("ddp-notes")).to_contain_text(STATE_IS_HOME)
    for lanes in (own, of_panel):
        expect(lanes.get_by_test_id("ddp-stop")).to_be_hidden()
    notebook.run_cell(AFTER)
    assert notebook.outputs(AFTER)[0]["data"]["text/plain"] == "('stopped', True, True)"
    assert notebook.errors_in_cells() == []


JOB = TRAIN.replace("ddp -n 2", "ddp --launcher torchrun -n 2 --threads 1")


def test_a_job_is_listed_live_and_stopped_by_its_button(notebook, server) -> None:
    page = notebook.open(server.add_notebook("jobs.ipynb", SETUP, JOB, "%accel jobs", LOOK)).page
    page.set_viewport_size({"width": 1200, "height": 3000})
    notebook.run_cell(0)
    notebook.run_cell(1)
    try:
        look_at_jobs(notebook)
    finally:
        for described in server.folder.glob("accel-jobs/*/job.json"):
            (described.parent / "cancel").touch()  # a job outlives its kernel


def look_at_jobs(notebook) -> None:
    wait_until_it_trains(notebook.cell(1).locator(".accel-lanes"))
    notebook.run_cell(2)
    jobs = notebook.cell(2).locator(".accel-jobs")
    expect(jobs.get_by_test_id("job-state")).to_have_text("running", timeout=60_000)
    step = jobs.get_by_test_id("job-step").inner_text()
    expect(jobs.get_by_test_id("job-step")).not_to_have_text(step, timeout=PATIENCE_MS)
    jobs.get_by_test_id("job-logs").click()
    expect(jobs.get_by_test_id("jobs-logs")).to_contain_text("Logs of", timeout=PATIENCE_MS)
    jobs.get_by_test_id("job-stop").click()
    expect(jobs.get_by_test_id("job-state")).to_contain_text("done, stopped", timeout=60_000)
    expect(notebook.cell(1).get_by_test_id("ddp-line")).to_contain_text("Stopped on 2 ranks", timeout=60_000)
    notebook.run_cell(3)
    assert notebook.outputs(3)[0]["data"]["text/plain"] == "('stopped', True, True)"
    assert notebook.errors_in_cells() == []
