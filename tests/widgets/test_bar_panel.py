"""The bar in a page: what it counts on, what a click shows at once, where the focus goes, who gets what is copied."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from accel_widgets.bar_panel import BarPanel
from accel_widgets.board_panel import BoardPanel
from accel_widgets.ladder_panel import LadderPanel
from accel_widgets.theme import themed
from tests.widgets.test_every_panel import BEAT, board
from tests.widgets.test_ladder_panel import MEASURING, trial

pytestmark = pytest.mark.browser

KEPT = {"live": "channels_last", "can": ["try", "undo", "copy"]}
IN_FOCUS = "() => document.activeElement.dataset.testid ?? document.activeElement.tagName"
CLIPBOARD = """() => Object.defineProperty(navigator, "clipboard", { configurable: true, value: {
  writeText: async (text) => { window.copied = text; } } })"""

# All that show() put into the page becomes one panel, whose tabs come later.
IN_A_PANEL = """() => {
  const root = document.createElement("div");
  root.className = "accel accel-workbench";
  root.append(...document.body.children);
  document.body.append(root);
}"""
A_TAB = """(name) => {
  const tab = document.createElement("div");
  tab.className = `accel-tab accel-tab-${name}`;
  tab.innerHTML = "<input>";
  document.querySelector(".accel-workbench").append(tab);
}"""
CLEAR_OF_THE_BAR = """(trial) => trial.getBoundingClientRect().top
  >= document.querySelector(".accel-bar").getBoundingClientRect().bottom"""
ROLES = "[...document.querySelectorAll('.accel-tab')].map((tab) => tab.getAttribute('role'))"


@pytest.fixture
def clock(page):
    """The page's, standing still."""
    page.clock.install(time=0)
    page.clock.pause_at(1_000)
    return page.clock


@pytest.mark.parametrize("button", ["undo", "copy"])
def test_a_button_that_hides_while_it_has_the_focus_hands_it_to_try(show, page, button):
    view = show(BarPanel, **KEPT)
    page.get_by_test_id(button).press("Enter")
    view.set(live="", can=["try"])
    assert page.get_by_test_id(button).is_hidden()
    assert page.evaluate(IN_FOCUS) == "try"


def test_what_is_copied_goes_to_the_view_that_asked_and_takes_neither_clipboard_nor_focus_when_it_is_late(
    show, page
):
    docked = show(BarPanel, **KEPT)
    in_a_cell = show(BarPanel, beside=True, **KEPT)
    page.get_by_test_id("copy").last.press("Enter")
    asked = in_a_cell.sent[-1]["to"]
    for view in (docked, in_a_cell):  # Python tells all views
        view.tell({"copy": "print(0)", "to": asked})
    assert page.get_by_test_id("copied").all_inner_texts() == ["", "Copied"]  # a page that has no clipboard
    assert page.evaluate(IN_FOCUS) == "copy"
    page.evaluate("document.execCommand = () => false")
    for leave, in_focus in (("Tab", "done"), ("Tab", "tab-profile"), ("Escape", "copy")):
        if leave == "Escape" or in_focus == "done":
            page.get_by_test_id("copy").last.focus()
            in_a_cell.tell({"copy": "print(1)", "to": asked})
            assert page.get_by_test_id("copied").all_inner_texts() == ["", "Press Ctrl+C to copy it"]
            assert page.evaluate("document.activeElement.value") == "print(1)"
        page.keyboard.press(leave)
        assert page.evaluate(IN_FOCUS) == in_focus
        assert page.get_by_role("textbox").count() == (in_focus == "done")  # it goes when it is left
    in_a_cell.tell({"copy": "print(1)", "to": asked})
    page.evaluate(CLIPBOARD)
    in_a_cell.tell({"copy": "print(2)", "to": asked})
    page.wait_for_function("window.copied === 'print(2)'")
    assert page.evaluate(IN_FOCUS) == "copy"  # what had the focus is hidden again
    in_a_cell.tell(
        {"copy": "print(3)", "to": {**asked, "at": asked["at"] - 60_000}}
    )  # the cell ran on for a minute
    assert page.get_by_test_id("copied").last.inner_text() == "Ready to copy"
    assert (page.evaluate("window.copied"), page.evaluate(IN_FOCUS)) == ("print(2)", "copy")
    assert page.get_by_role("textbox").input_value() == "print(3)"


def test_until_the_page_is_heard_the_line_says_what_interrupt_does_and_then_there_is_stop(show, page, clock):
    view = show(BarPanel)
    before = len(view.sent)
    view.set(beat={**BEAT, "can_stop": False})
    assert [message["seen"] for message in view.sent[before:]] == [
        True
    ]  # heard during it, it proves that Stop would be
    clock.run_for(1500)
    assert page.get_by_test_id("beat").inner_text().endswith("1:06 of at most 4:00. Interrupt stops it.")
    assert page.get_by_test_id("stop").is_hidden()
    view.set(beat=BEAT)
    assert page.get_by_test_id("stop").is_visible()
    assert "Interrupt" not in page.get_by_test_id("beat").inner_text()
    assert len(view.sent) == before + 1
    page.get_by_test_id("stop").press("Enter")
    view.set(beat={**BEAT, "can_stop": False, "seconds": 75.0})  # a cell runs: nothing was heard for a while
    assert page.get_by_test_id("stop").is_hidden()
    assert page.get_by_test_id("beat").inner_text().endswith("Interrupt stops it.")  # and not: stopping


def test_from_one_trial_to_the_next_stop_stays_with_its_focus_until_the_page_could_be_heard(
    show, page, clock
):
    view = show(BarPanel, beat=BEAT)
    page.get_by_test_id("stop").focus()
    view.set(beat={**BEAT, "can_stop": False, "seconds": 0.1})
    assert view.sent[-1]["seen"]
    clock.run_for(750)
    assert page.evaluate(IN_FOCUS) == "stop"
    assert "Interrupt" not in page.get_by_test_id("beat").inner_text()
    clock.run_for(750)
    assert (page.get_by_test_id("stop").is_hidden(), page.evaluate(IN_FOCUS)) == (True, "try")


def test_after_five_seconds_without_a_word_it_counts_on_no_more(show, page, clock):
    view = show(BarPanel, beat=BEAT)
    line, is_running = (
        page.get_by_test_id("beat"),
        "document.querySelector('.accel-bar').classList.contains('is-running')",
    )
    clock.run_for(4_000)
    assert line.inner_text() == "Trial · measuring 0:12 · round 3 of at most 40 · 1:09 of at most 4:00"
    clock.run_for(8_250)
    assert line.inner_text() == "Trial · no word from the kernel for 0:12"
    assert not page.evaluate(is_running)
    view.set(beat={**BEAT, "phase_s": 21.0, "seconds": 78.0})
    assert "measuring 0:21" in line.inner_text()
    assert page.evaluate(is_running)


def test_tabs_are_marked_whenever_they_come_and_without_its_kernel_nothing_in_the_panel_can_be_reached(
    show, page, clock
):
    view = show(BarPanel, beat=BEAT, tab="machine")
    page.evaluate(IN_A_PANEL)
    clock.run_for(3_000)  # of a page that takes its time
    for name in ("profile", "speed_up", "machine"):
        page.evaluate(A_TAB, name)
    assert page.evaluate(ROLES) == ["tabpanel"] * 3
    page.locator(".accel-tab-machine input").focus()
    view.set(tab="speed_up")  # by Python
    assert page.evaluate(IN_FOCUS) == "tab-speed_up"
    page.evaluate("document.querySelector('.accel-workbench').classList.add('jupyter-widgets-disconnected')")
    clock.run_for(500)
    assert page.get_by_test_id("beat").is_hidden()
    assert page.evaluate("document.activeElement.classList.contains('accel-workbench')")
    assert page.evaluate(
        "[...document.querySelector('.accel-workbench').children].every((part) => part.inert)"
    )


def test_try_this_on_a_card_says_at_once_that_it_begins_and_so_does_the_bar(show, page, tmp_path):
    bar = show(BarPanel, can=["tune"])
    cards = show(BoardPanel, beside=True, **board(tmp_path))
    page.evaluate(IN_A_PANEL)
    button = page.get_by_test_id("try-this")
    button.press("Enter")
    assert (button.inner_text(), page.get_by_test_id("beat").inner_text()) == ("starting…", "starting…")
    assert button.get_attribute("aria-label").startswith("starting…: ")
    assert page.get_by_role("status").first.inner_text() == "starting"
    button.press("Enter")
    assert [message["do"] for message in cards.sent] == ["try"]
    cards.set(is_busy=True)
    assert (button.inner_text(), button.get_attribute("aria-disabled")) == ("Try this", "true")
    bar.set(beat=BEAT)
    assert page.evaluate(IN_FOCUS) == "stop"
    cards.set(is_busy=False)
    assert button.get_attribute("aria-disabled") == "false"


def test_a_trial_that_a_click_began_comes_into_view_and_the_next_tab_begins_at_its_top(show, page):
    page.set_viewport_size({"width": 800, "height": 500})
    show(BarPanel, can=["try"], tab="speed_up")
    ladder = show(LadderPanel, beside=True)
    page.evaluate(IN_A_PANEL)
    page.add_style_tag(content=themed("workbench_panel.css") + ".accel-ladder { padding: 900px 0; }")
    of_a_cell, clicked = (
        {**trial(MEASURING, state="running"), "id": name} for name in ("trial-1", "trial-2")
    )
    top = "document.querySelector('.accel-workbench').getBoundingClientRect().top"
    before = page.evaluate(top)
    ladder.set(trials=[of_a_cell])
    assert page.evaluate(top) == before
    for is_far_below in (False, True):
        if is_far_below:
            ladder.set(trials=[of_a_cell])
            page.set_viewport_size({"width": 380, "height": 500})
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
        page.get_by_test_id("try").click()
        ladder.set(trials=[clicked, of_a_cell])
        expect(page.get_by_test_id("trial").first).to_be_in_viewport(ratio=1)
        assert page.get_by_test_id("trial").first.evaluate(CLEAR_OF_THE_BAR)
    page.get_by_test_id("try").click()
    page.evaluate(
        "document.body.append(document.createElement('input'))"
    )  # the user goes on, elsewhere on the page
    page.locator("body > input").focus()
    before = page.evaluate(top)
    ladder.set(trials=[{**clicked, "id": "trial-3"}, clicked, of_a_cell])
    assert page.evaluate(top) == before
    for tab, scrolled in (("machine", 2000), ("profile", 40)):
        page.evaluate(f"scrollTo(0, {scrolled})")
        page.get_by_test_id(f"tab-{tab}").click()
        assert page.evaluate(top) == pytest.approx(0, abs=1)
