"""The machine's load in a real JupyterLab: values move while a cell runs, folding and ending end the thread, both themes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

BUSY = """
import time
until = time.monotonic() + 15
while time.monotonic() < until:
    sum(range(10_000))
"""
COLLECT = """() => {
  const said = document.querySelector("[data-testid=telemetry-said]");
  window.seen = new Set();
  new MutationObserver(() => window.seen.add(said.textContent)).observe(said, { childList: true });
}"""
THREADS = "import threading; [one.name for one in threading.enumerate()].count('accel telemetry')"
SUMMARY = "round(load.summary(cell=3)['process_cores'].mean, 1) > 0.1, load.is_running"
CELLS = (
    "%load_ext accel",
    "%accel monitor -o load",
    BUSY,
    THREADS,
    SUMMARY,
    "%accel monitor -o load",
    "load.close()",
)
MONITOR, WORK, COUNT, FIGURES, AGAIN, CLOSE = range(1, 7)


def count_threads(notebook):
    notebook.run_cell(COUNT)
    return notebook.outputs(COUNT)[0]["data"]["text/plain"]


def wait_for_no_thread(notebook, patience_s):
    """The page's last word travels beside the cell that counts: either may arrive first."""
    until = time.monotonic() + patience_s
    while count_threads(notebook) != "0":
        assert time.monotonic() < until, "the kernel still samples what no page shows"


def test_values_move_while_a_cell_runs_and_closing_ends_the_thread(notebook, server, tmp_path):
    page = notebook.open(server.add_notebook("load.ipynb", *CELLS)).page
    notebook.run_cell(0)
    notebook.run_cell(MONITOR)
    strip = page.locator(".accel-telemetry")
    expect(strip).to_be_visible()
    page.evaluate(COLLECT)
    notebook.run_cell(WORK)
    assert page.evaluate("window.seen.size") >= 3  # the kernel was busy all the while
    folder = Path(os.environ.get("ACCEL_SCREENSHOTS", tmp_path))
    for theme in ("light", "dark"):
        notebook.set_theme(f"JupyterLab {theme.capitalize()}")
        strip.screenshot(path=folder / f"load_{theme}.png")
    notebook.run_cell(FIGURES)
    assert notebook.outputs(FIGURES)[0]["data"]["text/plain"] == "(True, True)"
    assert count_threads(notebook) == "1"
    notebook.run_cell(AGAIN)
    assert count_threads(notebook) == "1"  # the one before ended
    page.get_by_test_id("telemetry-end").last.click()
    expect(page.get_by_test_id("telemetry-note").last).to_contain_text("Ended.")
    assert count_threads(notebook) == "0"
    notebook.run_cell(CLOSE)
    assert notebook.errors_in_cells() == []


def test_the_strip_of_the_panel_samples_while_it_is_unfolded_on_the_page_and_not_once_that_is_reloaded(
    notebook, server
):
    cells = ("%load_ext accel", "%accel panel", "0", THREADS)
    page = notebook.open(server.add_notebook("strip.ipynb", *cells)).page
    notebook.run_cell(0)
    notebook.run_cell(1)
    machine, profile = page.get_by_test_id("tab-machine"), page.get_by_test_id("tab-profile")
    machine.click(timeout=60_000)
    expect(page.get_by_test_id("telemetry-said")).to_contain_text("CPU", timeout=60_000)
    expect(page.get_by_test_id("telemetry-cpu")).to_contain_text("%")
    assert count_threads(notebook) == "1"
    profile.click()
    wait_for_no_thread(notebook, 30)  # another tab hides the load
    machine.click()
    expect(page.get_by_test_id("telemetry-note")).to_contain_text("of one core")
    page.get_by_test_id("telemetry-fold").click()
    expect(page.get_by_test_id("telemetry-note")).to_contain_text("Not sampled")
    assert count_threads(notebook) == "0"
    page.get_by_test_id("telemetry-fold").click()
    expect(page.get_by_test_id("telemetry-pause")).to_be_visible()
    expect(page.get_by_test_id("telemetry-note")).to_contain_text("of one core")
    assert count_threads(notebook) == "1"
    page.evaluate("async () => await window.jupyterapp.commands.execute('editmenu:clear-all')")
    expect(page.get_by_test_id("telemetry-said")).to_have_count(0)
    wait_for_no_thread(
        notebook, 9
    )  # the cleared panel ends its sampling; without a page it would end after ten seconds
    assert notebook.errors_in_cells() == []

    notebook.run_cell(1)
    page.get_by_test_id("tab-machine").click(timeout=60_000)
    expect(page.get_by_test_id("telemetry-cpu")).to_contain_text("%", timeout=60_000)
    assert count_threads(notebook) == "1"
    page.reload()  # not saved: the output is gone, and the view could not say that it goes
    notebook.wait_until_ready()
    expect(page.get_by_test_id("telemetry-said")).to_have_count(0)
    wait_for_no_thread(notebook, 60)
