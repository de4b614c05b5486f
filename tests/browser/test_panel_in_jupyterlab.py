"""The panel in a real JupyterLab: from a click to a verdict, with the kernel free; Stop; errors; both themes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import nbformat
import psutil
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

QUICKSTART = Path(__file__).resolve().parents[2] / "notebooks" / "quickstart.ipynb"
MODEL = """
import torch
from torch import nn
torch.manual_seed(0)
images, labels = torch.randn(960, 1, 28, 28), torch.randint(10, (960,))
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, labels), batch_size=32)
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 26 * 26, 10))
optimizer = torch.optim.Adam(model.parameters())
criterion = nn.CrossEntropyLoss()
"""
PROFILE = """%%accel profile
for x, y in loader:
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
"""
# A trial of one relaunch: what it measures is held in tests/workers; here it is what the panel makes of it.
QUICKLY = """
from functools import partial
from accel.workbench import trial_start
from accel.workers.samples import Effort
effort = Effort(warm_up=2, least_rounds=10, most_rounds=12, seconds=5)
trial_start.TrialSetting = partial(trial_start.TrialSetting, effort=effort, steady_relaunches=1, notebook_relaunches=1)
"""
CELLS = (MODEL, "%load_ext accel", PROFILE, "%accel panel", "1 + 1", "import time; time.sleep(2)")
PANEL, ARITHMETIC = 3, 4
RUN_ANOTHER = """(notebook, index) => {
  notebook.content.activeCellIndex = index;
  void window.jupyterapp.commands.execute("notebook:run-cell");
}"""
VERDICT_MS = 300_000


def opened(notebook, server, name, *, before=""):
    """The small notebook, run down to its panel."""
    notebook.open(server.add_notebook(name, before + CELLS[0], *CELLS[1:]))
    for index in range(PANEL + 1):
        notebook.run_cell(index)
    expect(notebook.page.get_by_test_id("step-time")).to_contain_text("ms a step")
    assert notebook.errors_in_cells() == []
    return notebook.page


def dock(page):
    page.get_by_title("Open the accel panel next to this notebook").first.click()
    expect(page.locator(".accel-docked .accel-workbench")).to_be_visible(timeout=60_000)
    return page.locator(".accel-docked")


def switch_on(page, name):
    """By keyboard: what is folded away is opened first."""
    page.get_by_test_id("tab-speed_up").click()
    switch = page.locator(f"input[data-name='{name}']")
    switch.wait_for(state="attached")  # what can work here is asked once the panel stands there
    if not switch.is_visible():
        page.get_by_test_id("others").locator("> summary").press("Enter")
    switch.press("Space")
    expect(switch).to_be_checked()


def start_trial(page, name):
    switch_on(page, name)
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.get_by_test_id("stop")).to_be_visible(timeout=120_000)


def save_picture(page, name, tmp_path, *, width=1280):
    folder = Path(os.environ.get("ACCEL_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    page.set_viewport_size({"width": width, "height": 2400})
    page.locator(".accel-workbench").screenshot(path=folder / f"{name}.png")


def test_a_switch_becomes_a_ladder_row_with_a_verdict_while_the_kernel_stays_free(notebook, server, tmp_path):
    page = opened(notebook, server, "verdict.ipynb", before=QUICKLY)
    start_trial(page, "fused_optimizer")
    row = page.get_by_test_id("ladder-row")
    expect(row).to_have_attribute("data-plan", "fused_optimizer")
    expect(page.get_by_test_id("progress")).to_contain_text("pairs", timeout=VERDICT_MS)
    notebook.run_cell(ARITHMETIC)
    assert notebook.outputs(ARITHMETIC)[0]["data"]["text/plain"] == "2"
    assert page.get_by_test_id("stop").is_visible()  # the answer came while the trial was running
    save_picture(page, "measuring", tmp_path)
    notebook.expect_trial_to_be_done()
    assert row.get_attribute("data-verdict") in {"faster", "slower", "no difference", "undecided"}
    assert "×" in page.get_by_test_id("sentence").inner_text()
    assert "fused" in row.inner_text()
    page.get_by_test_id("keep").click()
    expect(page.get_by_test_id("is-live")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_test_id("is-live")).not_to_be_visible()
    expect(page.get_by_text("Nothing is kept")).to_be_visible()


def test_stop_in_the_panel_ends_a_trial_that_a_cell_waits_for_with_its_workers(notebook, server):
    cells = (*CELLS[:PANEL], "%accel try channels_last")
    page = notebook.open(server.add_notebook("stop.ipynb", *cells)).page
    for index in range(PANEL):
        notebook.run_cell(index)
    shown = page.evaluate_handle("() => window.jupyterapp.shell.currentWidget")
    docked = dock(page)
    shown.evaluate(RUN_ANOTHER, PANEL)
    expect(docked.get_by_test_id("beat")).to_contain_text("measuring", timeout=VERDICT_MS)
    measuring = server.workers()
    assert measuring
    docked.get_by_test_id("stop").click()
    expect(docked.get_by_test_id("beat")).to_contain_text("stopping", timeout=30_000)
    page.wait_for_function(
        "(shown) => shown.sessionContext.session.kernel.status === 'idle'", arg=shown, timeout=60_000
    )
    expect(docked.get_by_test_id("trial-state")).to_have_text("stopped")
    expect(docked.get_by_test_id("stop")).not_to_be_visible()
    assert not [pid for pid in measuring if psutil.pid_exists(pid) and pid in server.workers()]
    expect(docked.get_by_test_id("tune")).to_be_enabled()
    notebook.shut_down()
    assert server.workers() == set()


def test_an_error_of_a_click_is_shown_in_the_panel(notebook, server):
    page = notebook.open(server.add_notebook("error.ipynb", "%load_ext accel", "%accel panel")).page
    notebook.run_all()
    expect(page.get_by_test_id("phase-note")).to_contain_text("%%accel profile")
    switch_on(page, "channels_last")
    page.get_by_role("button", name="Try", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("no cell was profiled yet")


def test_a_profile_is_read_by_mouse_and_keyboard_in_both_themes_and_each_tab_fits_in_900_pixels(
    notebook, server, tmp_path
):
    page = opened(notebook, server, "profile.ipynb")
    page.get_by_test_id("tab-speed_up").press("ArrowLeft")
    expect(page.get_by_test_id("tab-profile")).to_be_focused()
    page.get_by_test_id("op-filter").fill("convolution_backward")
    expect(page.get_by_test_id("op-row").first).to_contain_text("aten::convolution_backward")
    page.get_by_test_id("op-filter").fill("")
    page.get_by_test_id("phase-item").filter(has_text="Optimizer").first.click()
    expect(page.get_by_test_id("op-phase")).to_have_value("optimizer")
    rows = page.get_by_test_id("op-row")
    assert all("Optimizer" in text for text in rows.all_inner_texts())

    page.get_by_test_id("tab-profile").press("ArrowRight")
    refused = page.get_by_test_id("refused")
    fold, reason = refused.locator("summary"), refused.locator(".accel-why-not").first
    expect(fold).to_have_text(re.compile(r"[1-9]\d* cannot work here, and why"), timeout=60_000)
    expect(reason).not_to_be_visible()
    fold.press("Enter")
    expect(reason).to_be_visible()
    notebook.run_cell(PANEL - 1)  # a new profile leaves it open
    expect(reason).to_be_visible()
    fold.press("Enter")

    panel = page.locator(".accel-workbench")
    notebook.hide_sidebar()
    for theme in ("light", "dark"):
        notebook.set_theme(f"JupyterLab {theme.capitalize()}")
        for tab in ("profile", "speed_up", "machine"):
            page.get_by_test_id(f"tab-{tab}").click()
            for width in (400, 800, 1600):
                save_picture(page, f"{tab}_{theme}_{width}", tmp_path, width=width)
                assert panel.evaluate("panel => panel.scrollWidth <= panel.clientWidth"), (tab, width)
            assert panel.bounding_box()["height"] < 900, tab


@pytest.mark.whole
def test_the_quickstart_runs_and_its_panel_tries_a_switch(notebook, server):
    cells = [
        cell.source for cell in nbformat.read(QUICKSTART, as_version=4).cells if cell.cell_type == "code"
    ]
    # tests/notebooks runs it at its full length
    sooner = [
        re.sub(r"--budget-s \d+", "--budget-s 15", cell).replace("epochs=4", "epochs=1") for cell in cells
    ]
    page = notebook.open(server.add_notebook("quickstart_sooner.ipynb", *sooner)).page
    notebook.run_all()
    assert notebook.errors_in_cells() == []
    expect(page.get_by_test_id("step-time")).to_contain_text("ms a step")
    tried = page.get_by_test_id("trial").count()
    assert tried >= 1  # what %accel try measured is on the panel's ladder too
    start_trial(page, "channels_last")
    expect(page.get_by_test_id("trial")).to_have_count(tried + 1)
    newest = page.get_by_test_id("trial").first
    expect(newest.get_by_test_id("ladder-row")).to_have_attribute("data-plan", "channels_last")
    expect(newest.get_by_test_id("progress")).to_contain_text("pairs", timeout=VERDICT_MS)
    page.get_by_test_id("stop").click()
    expect(newest.get_by_test_id("trial-state")).to_have_text("stopped", timeout=15_000)


STATE = """() => { const cells = window.jupyterapp.shell.currentWidget.content;
  return [cells.activeCellIndex, cells.widgets.length]; }"""
RESTART = "async () => await window.jupyterapp.shell.currentWidget.sessionContext.restartKernel()"
TOLD = "panel => getComputedStyle(panel, '::before').content"


def test_a_restarted_kernel_is_told_and_the_notebook_that_was_saved_shows_how_it_stood(notebook, server):
    page = opened(notebook, server, "restarted.ipynb")
    *_, live, static = notebook.outputs(
        PANEL
    )  # before them an empty one, where opening it took over a second
    assert "application/vnd.jupyter.widget-view+json" in live["data"]
    assert "Forward" in static["data"]["text/html"]
    saved = page.locator("[data-accel-saved]")
    expect(saved).not_to_be_visible()  # the live panel stands above it
    panel = page.locator(".accel-workbench")
    assert panel.evaluate(TOLD) == "none"
    page.evaluate(RESTART)
    expect(panel).to_have_class(re.compile("jupyter-widgets-disconnected"), timeout=60_000)
    page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    notebook.expected.add(
        "Error: widget model not found"
    )  # JupyterLab logs that the new kernel lacks the widget
    page.reload()
    notebook.wait_until_ready()
    expect(saved).to_be_visible(timeout=30_000)
    expect(saved).to_contain_text("Forward")
    expect(page.get_by_text("model not found")).not_to_be_visible()
