"""A button in the toolbar opens the panel next to the notebook, in JupyterLab and Notebook 7; news is a notice on the page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from tests.browser.test_panel_in_jupyterlab import MODEL, PROFILE, QUICKLY, RESTART, start_trial

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

NOTICE = """from accel.notebook.page_news import toast
toast(get_ipython(), "It is <b>over</b>: *1.2* times")"""


def dock(page):
    page.get_by_title("Open the accel panel next to this notebook").first.click()
    expect(page.locator(".accel-docked .accel-workbench")).to_be_visible(timeout=60_000)
    return page.locator(".accel-docked")


def test_the_panel_opens_beside_the_notebook_and_again_after_a_restart(notebook, server):
    page = notebook.open(server.add_notebook("beside.ipynb", "1 + 1", NOTICE)).page
    docked = dock(page)
    cells, pane = page.locator(".jp-Notebook").bounding_box(), docked.bounding_box()
    assert pane["x"] >= cells["x"] + cells["width"] - 1
    page.get_by_title("Open the accel panel next to this notebook").first.click()
    expect(docked).to_have_count(1)
    notebook.run_all()
    expect(page.get_by_text("It is <b>over</b>: *1.2* times", exact=True)).to_be_visible()
    assert notebook.outputs(1) == []
    assert notebook.outputs(0)[0]["execution_count"] == 1  # the panel is no cell of the notebook
    page.evaluate(RESTART)
    line = page.get_by_test_id("accel-docked-line")
    expect(line).to_contain_text("The kernel has restarted", timeout=60_000)
    line.get_by_role("button", name="Open again").click()
    expect(line).to_be_hidden(timeout=60_000)
    expect(docked.locator(".accel-workbench")).not_to_have_class(re.compile("jupyter-widgets-disconnected"))


@pytest.mark.parametrize("notebook", ["notebooks"], indirect=True)
def test_in_notebook_7_the_mouse_leads_from_a_profile_to_a_plan_that_is_kept(notebook, server):
    page = notebook.open(server.add_notebook("seven.ipynb", QUICKLY + MODEL, "%load_ext accel", PROFILE)).page
    page.locator(".jp-Notebook .jp-CodeCell").first.click()
    for _ in range(3):
        page.get_by_role("button", name="Run this cell and advance").click()
    expect(page.get_by_text("ms a step").first).to_be_visible(timeout=120_000)
    docked = dock(page)
    start_trial(page, "fused_optimizer")
    notebook.expect_trial_to_be_done()
    expect(docked.get_by_test_id("sentence")).to_contain_text("×")
    docked.get_by_test_id("keep").click()
    expect(docked.get_by_test_id("is-live")).to_be_visible()
