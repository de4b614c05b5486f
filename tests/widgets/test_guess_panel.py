"""The field for a guess: by keyboard, before and after a measurement, and what of it is there without a kernel."""

from __future__ import annotations

import math

import pytest

from accel.labs.course.chapter import GuessForm
from accel.labs.course.guess import Guess
from accel.labs.student_record import StudentRecord
from accel.shown import live_panel
from accel_widgets.guess_panel import GuessPanel

pytestmark = pytest.mark.browser

FORM = GuessForm(
    "waiting-share",
    "How much of a step waits for **data** <i>here</i>?",
    "%",
    38.0,
    "on the course's machine",
)


def guess():
    return Guess(5, FORM, StudentRecord())


@pytest.fixture
def panel(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_HISTORY", str(tmp_path / "history.sqlite"))
    made = live_panel(guess())
    yield made
    made.close()


@pytest.fixture
def page(panel, show, page):
    """The panel in a page that is joined to it."""
    traits = ("title", "points", "questions", "outcomes")
    view = show(GuessPanel, **{name: getattr(panel, name) for name in traits})

    def give(text):
        page.get_by_label("Your guess in %").fill(text)
        page.keyboard.press("Enter")
        panel._guessed(None, view.sent[-1], None)
        view.set(outcomes=panel.outcomes, points=panel.points)
        return page.get_by_test_id("outcome").inner_text()

    page.give, page.view = give, view
    return page


def test_a_guess_is_given_by_keyboard_and_can_be_changed_until_it_is_measured(page, panel):
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "Your guess in %"
    assert (
        page.give("many")
        == "Not counted: 'many' is no number. Write 1250 or 0.35, with a point before decimals."
    )
    assert math.isnan(panel.guess.given)
    assert page.give("35") == "Your guess: 35 %. Now measure."
    assert page.give("40 %") == "Your guess: 40 %. Now measure."
    assert page.get_by_label("Your guess in %").is_enabled()
    assert guess().given == 40.0


def test_after_a_measurement_both_are_shown_and_another_guess_says_that_it_came_later(page, panel):
    page.give("35")
    guess().outcome(41.3)  # another cell: `lab.measured`
    again = GuessPanel(guess())
    assert again.outcomes["waiting-share"]["verdict"] == "Your guess: 35 %. Measured: 41.3 %."
    assert again.questions[0]["typed"] == "35"
    assert "Your guess: 35 %. Measured: 41.3 %." in again._stand_in()["text/html"]
    again.close()
    assert page.give("41") == "Your guess after a measurement of 41.3 %: 41 %. Now measure again."


def test_a_guess_of_an_earlier_session_is_in_the_field(page, panel):
    panel.guess.give("12.5")
    earlier = GuessPanel(guess())
    page.view.set(questions=earlier.questions, outcomes=earlier.outcomes)
    assert page.get_by_label("Your guess in %").input_value() == "12.5"
    assert page.get_by_test_id("outcome").inner_text() == "Your guess: 12.5 %. Now measure."
    earlier.close()


def test_the_question_is_read_with_its_field(page):
    asked = "Predict first How much of a step waits for data <i>here</i>?"
    assert page.get_by_role("group", name=asked).get_by_role("button", name="Guess").count() == 1


def test_a_notebook_without_a_kernel_has_the_question_and_says_what_to_do(panel):
    bundle = panel._stand_in()
    assert "waits for <strong>data</strong> &lt;i&gt;here&lt;/i&gt;?" in bundle["text/html"]
    assert all("Run this cell in a notebook to guess." in shown for shown in bundle.values())


def test_where_nothing_is_kept_the_page_says_so(monkeypatch):
    monkeypatch.setenv("ACCEL_HISTORY", "off")
    unkept = GuessPanel(guess())
    unkept._guessed(None, {"given": "3"}, None)
    assert "ACCEL_HISTORY is off" in unkept.points
    unkept.guess.outcome(4.0)
    unkept._guessed(None, {"given": "5"}, None)
    assert "after a measurement of 4 %" in unkept.outcomes["waiting-share"]["verdict"]
    unkept.close()
