"""A button in the toolbar opens the panel next to the notebook, in JupyterLab and Notebook 7; news is a notice on the page."""

from __future__ import annotations

import re
from itertools import chain, repeat

import pytest
from playwright.sync_api import expect
from tests.browser.test_panel_in_jupyterlab import MODEL, PROFILE, QUICKLY, RESTART, STATE, dock, start_trial

pytestmark = pytest.mark.browser

NOTICE = """from accel.notebook.page_news import toast
toast(get_ipython(), "It is <b>over</b>: *1.2* times")"""
# To the last line of what holds the panel: by more than the height of its bar, once there is so much to scroll.
SCROLLED_ON = """(inside) => {
  const panel = inside.closest(".accel-workbench");
  panel.lastElementChild.scrollIntoView({ block: "end" });
  return panel.getBoundingClientRect().top < -panel.querySelector(".accel-bar").offsetHeight;
}"""
FOCUSED = "() => document.activeElement.outerHTML.slice(0, 300)"
IN_A_CELL = "() => document.activeElement.closest('.jp-Notebook') !== null"


def test_the_panel_opens_next_to_the_notebook_and_again_after_a_restart(notebook, server):
    page = notebook.open(server.add_notebook("next_to_it.ipynb", "1 + 1", NOTICE)).page
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
    expect_the_bar_to_stay_in_sight(page, docked)


@pytest.mark.parametrize("notebook", ["notebooks"], indirect=True)
def test_in_notebook_7_the_mouse_leads_from_a_profile_to_a_plan_that_is_kept(notebook, server):
    page = notebook.open(server.add_notebook("seven.ipynb", QUICKLY + MODEL, "%load_ext accel", PROFILE)).page
    page.locator(".jp-Notebook .jp-CodeCell").first.click()
    for _ in range(3):
        page.get_by_role("button", name="Run this cell and advance").click()
    expect(page.get_by_text("ms a step").first).to_be_visible(timeout=120_000)
    docked = dock(page)
    page.set_viewport_size({"width": 1280, "height": 420})
    start_trial(page, "fused_optimizer")
    expect(docked.get_by_test_id("trial")).to_be_in_viewport(ratio=0.5, timeout=120_000)
    notebook.expect_trial_to_be_done()
    expect(docked.get_by_test_id("sentence")).to_contain_text("×")
    docked.get_by_test_id("keep").click()
    expect(docked.get_by_test_id("is-live")).to_be_visible()


def expect_the_bar_to_stay_in_sight(page, around):
    """When the panel in this element is scrolled to its end."""
    page.set_viewport_size({"width": 1280, "height": 400})
    around.get_by_test_id("tab-machine").click()
    page.wait_for_function(SCROLLED_ON, arg=around.get_by_test_id("try").element_handle())
    expect(around.get_by_test_id("try")).to_be_in_viewport(ratio=1)


def press_until(page, at, *, key="Tab", most=40):
    """Press this key until such an element has the focus."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("(at) => document.activeElement.matches(at)", at):
            return
    pytest.fail(f"{most} times {key} do not lead to {at}, but to {page.evaluate(FOCUSED)}")


def tab_into_a_cell(page, most=60):
    """Where the focus is as a notebook opens, or some Tabs later: in Notebook 7 a slow page takes it away once more."""
    for _ in range(most):
        if page.evaluate(IN_A_CELL):
            return
        page.keyboard.press("Tab")
        page.wait_for_timeout(100)
    pytest.fail(f"{most} times Tab do not lead into a cell, but to {page.evaluate(FOCUSED)}")


@pytest.mark.parametrize("notebook", ["lab", "notebooks"], indirect=True)
def test_keys_alone_lead_from_a_profile_to_a_plan_that_is_kept_and_its_plain_code(notebook, server):
    cells = (QUICKLY + MODEL, "%load_ext accel", PROFILE, "%accel panel")
    page = notebook.open(server.add_notebook(f"keys_{notebook.app}.ipynb", *cells)).page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tab_into_a_cell(page)
    page.keyboard.press("Escape")
    for key in chain(repeat("Shift+Enter", 3), ["Control+Enter"]):
        page.keyboard.press(key)
    switch = page.locator("input[data-name='fused_optimizer']")
    switch.wait_for(state="attached", timeout=120_000)
    before = page.evaluate(STATE)
    press_until(page, ".accel-tab-button")
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_test_id("tab-speed_up")).to_be_focused()
    if not switch.is_visible():
        press_until(page, "[data-testid='others'] > summary")
        page.keyboard.press("Enter")
    press_until(page, "input[data-name='fused_optimizer']")
    for key in ("Space", "x", "ArrowUp", "Enter"):  # keys of the notebook: cut, another cell, edit
        page.keyboard.press(key)
    expect(switch).to_be_checked()
    press_until(page, "[data-testid='try']", key="Shift+Tab")
    expect(page.get_by_test_id("try")).to_have_attribute(
        "aria-disabled", "false", timeout=60_000
    )  # by the kernel
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("stop")).to_be_focused(timeout=120_000)
    notebook.expect_trial_to_be_done()
    expect(page.get_by_test_id("try")).to_be_focused()
    press_until(page, "[data-testid='keep']")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("is-live")).to_be_focused()
    press_until(page, "[data-testid='copy']", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("copied")).to_have_text("Copied")
    assert "fused=True" in page.evaluate("navigator.clipboard.readText()")
    press_until(page, "[data-testid='undo']", key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("try")).to_be_focused()
    assert page.evaluate(STATE) == before
    expect_the_bar_to_stay_in_sight(page, page.locator(".jp-Notebook"))
