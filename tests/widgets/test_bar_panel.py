"""The bar in a page: what it counts on, what a click shows at once, where the focus goes, who gets what is copied."""

from __future__ import annotations

import pytest

from accel_widgets.bar_panel import BarPanel
from tests.widgets.test_every_panel import BEAT

pytestmark = pytest.mark.browser

KEPT = {"live": "channels_last", "can": ["try", "undo", "copy"]}
IN_FOCUS = "() => document.activeElement.dataset.testid ?? document.activeElement.tagName"
CLIPBOARD = """() => Object.defineProperty(navigator, "clipboard", { configurable: true, value: {
  writeText: async (text) => { window.copied = text; } } })"""


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
        view.tell({"copy": "print(1)", "to": asked})
    assert page.get_by_test_id("copied").all_inner_texts() == ["", "Press Ctrl+C to copy it"]
    assert page.evaluate("document.activeElement.value") == "print(1)"
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


def test_until_the_page_is_heard_the_line_says_what_interrupt_does_and_then_there_is_stop(show, page):
    page.clock.install()
    view = show(BarPanel)
    before = len(view.sent)
    view.set(beat={**BEAT, "can_stop": False})
    assert [message["seen"] for message in view.sent[before:]] == [
        True
    ]  # heard during it, it proves that Stop would be
    page.clock.run_for(1500)
    assert page.get_by_test_id("beat").inner_text().endswith("1:06 of at most 4:00. Interrupt stops it.")
    assert page.get_by_test_id("stop").is_hidden()
    view.set(beat=BEAT)
    assert page.get_by_test_id("stop").is_visible()
    assert "Interrupt" not in page.get_by_test_id("beat").inner_text()
    assert len(view.sent) == before + 1
