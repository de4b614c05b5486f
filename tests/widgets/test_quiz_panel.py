"""The quiz in a browser: every kind of question by keyboard alone, and nothing on the page that tells an answer."""

from __future__ import annotations

import json

import pytest

from accel.labs.course import lab_files
from accel.labs.quiz.quiz import Quiz
from accel.labs.quiz.quiz_file import read_quiz
from accel.labs.student_record import StudentRecord
from accel_widgets.quiz_panel import QuizPanel

pytestmark = pytest.mark.browser

FILE = """
chapter: 5
title: Loading <b>
questions:
  - id: one
    kind: single
    lesson: l
    ask: "Which `x < y`?"
    options:
      - {text: "`a`", why: not this one}
      - {text: "<i>b</i>", correct: true, why: this is it}
      - {text: c, why: nor this}
  - id: some
    kind: multiple
    lesson: l
    ask: Which ones?
    options:
      - {text: a, why: yes a, correct: true}
      - {text: b, why: no b}
      - {text: c, why: yes c, correct: true}
  - {id: number, kind: numeric, lesson: l, ask: How many?, answer: 4, why: two pairs, otherwise: count again, unit: workers}
  - id: order
    kind: ordering
    lesson: l
    ask: In which order?
    items: [{text: first, why: it begins}, {text: second, why: it follows}, {text: third, why: it ends}]
  - id: pairs
    kind: matching
    lesson: l
    ask: What belongs together?
    pairs: [{left: "1", right: one, why: same}, {left: "2", right: two, why: same too}]
    extra: [{text: three, why: there is no 3}]
  - {id: mine, kind: own, lesson: l, about: parameters}
"""


@pytest.fixture
def panel(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_HISTORY", str(tmp_path / "history.sqlite"))
    (tmp_path / "05.yaml").write_text(FILE)
    made = QuizPanel(Quiz(read_quiz(tmp_path / "05.yaml"), StudentRecord(), lambda: None))
    yield made
    made.close()


@pytest.fixture
def page(panel, show, page):
    """The panel in a page that is joined to it: what the page sends is marked, and what it gets is drawn."""
    view = show(
        QuizPanel, **{name: getattr(panel, name) for name in ("title", "points", "questions", "outcomes")}
    )

    def check(name):
        form = page.locator(f"form[data-question={name}]")
        form.get_by_role("button", name="Check").focus()
        page.keyboard.press("Enter")
        panel._answered(None, view.sent[-1], None)
        view.set(outcomes=panel.outcomes, points=panel.points)
        return form.get_by_test_id("outcome").inner_text()

    page.check, page.view = check, view
    return page


def form(page, name):
    return page.locator(f"form[data-question={name}]")


def test_the_page_gets_no_answer_before_it_is_given(panel):
    state = panel.get_state()  # all that reaches the page, and the file where a front end saves widgets
    sent = json.dumps(
        {name: state[name] for name in ("title", "points", "questions", "outcomes")} | panel._stand_in()
    )
    for reason in (
        "this is it",
        "not this one",
        "yes a",
        "two pairs",
        "count again",
        "it begins",
        "same too",
        "there is no 3",
    ):
        assert reason not in sent
    assert "correct" not in sent


def test_one_option_is_chosen_by_keyboard_answered_wrongly_then_rightly(page):
    form(page, "one").get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    words = {text: form(page, "one").get_by_role("radio", name=text, exact=True) for text in ("a", "c")}
    words["c"].focus()
    page.keyboard.press("Space")
    assert "Not yet." in (said := page.check("one"))
    assert "nor this" in said
    assert "this is it" not in said
    assert "You can answer again, for 0.5 points." in said
    form(page, "one").get_by_role("radio", name="<i>b</i>", exact=True).focus()
    page.keyboard.press("Space")
    said = page.check("one")
    assert "Right: 0.5 of 1 point." in said
    assert all(why in said for why in ("this is it", "not this one", "nor this"))
    marks = form(page, "one").get_by_role("img")
    assert sorted(mark.get_attribute("aria-label") for mark in marks.all()) == ["right", "wrong", "wrong"]
    assert form(page, "one").get_by_role("group", name="Question 1 of 6 · l Which x < y?").count() == 1
    assert page.get_by_test_id("score").inner_text() == "0.5 of 6 points (8 %), 5 questions open."
    assert form(page, "one").get_by_role("radio").first.is_disabled()
    assert page.evaluate("document.activeElement.dataset.testid") == "outcome"


def test_several_a_number_an_order_and_pairs_by_keyboard(page):
    for text in ("a", "c"):
        form(page, "some").get_by_label(text, exact=True).focus()
        page.keyboard.press("Space")
    assert "Right: 1 of 1 point." in page.check("some")

    form(page, "number").get_by_label("workers").focus()
    page.keyboard.type("5")
    assert "count again" in page.check("number")
    form(page, "number").get_by_label("workers").fill("4")
    assert "Right: 0.5 of 1 point." in page.check("number")

    for text in ("first", "second", "third"):  # each to the end, one after the other
        for _ in range(3):
            form(page, "order").get_by_role("button", name=f"Move down: {text}").focus()
            page.keyboard.press("Enter")
    assert "Right: 1 of 1 point." in page.check("order")

    for left, right in (("1", "one"), ("2", "two")):
        form(page, "pairs").get_by_label(left, exact=True).select_option(label=right)
    assert "Right: 1 of 1 point." in page.check("pairs")


def test_what_is_no_answer_is_said_and_not_counted(page, panel):
    assert "Not counted: nothing is chosen. Choose first, then check." in page.check("one")
    first = form(page, "one").get_attribute("data-shown")
    page.check("one")
    assert form(page, "one").get_attribute("data-shown") != first  # it is read out again
    assert panel.quiz.standing("one").answers == 0


def test_texts_of_the_file_are_shown_as_they_are_written(page):
    assert page.get_by_role("heading").inner_text() == "Quiz 5: Loading <b>"
    assert page.locator("form b, form i").count() == 0
    assert form(page, "one").locator("code").first.inner_text() == "x < y"


def test_a_lesson_is_a_link_to_its_heading_and_a_link_out_opens_a_page_of_its_own(
    tmp_path, monkeypatch, page
):
    monkeypatch.setattr(lab_files, "INSTALLED", tmp_path)
    cell = {"cell_type": "markdown", "source": ["# Lab\n", "## Reading a `Profile`\n", "Text"]}
    (tmp_path / "05_loading.ipynb").write_text(json.dumps({"cells": [cell]}))
    asked = FILE.replace("lesson: l", "lesson: reading-a-profile", 1).replace("`x < y`", "[x](https://x.org)")
    (tmp_path / "05.yaml").write_text(asked)
    made = QuizPanel(Quiz(read_quiz(tmp_path / "05.yaml"), StudentRecord(), lambda: None))
    page.view.set(questions=made.questions)
    made.close()
    page.evaluate("""() => { const heading = document.createElement("h2"); heading.dataset.jupyterId = "Reading-a-Profile";
        heading.style.marginTop = "3000px"; document.body.append(heading); }""")
    link = page.get_by_role("link", name="Reading a Profile")
    assert link.get_attribute("href") == "#Reading-a-Profile"
    link.press("Enter")
    assert page.evaluate("scrollY") > 1000
    out = page.get_by_role("link", name="x", exact=True)
    assert (out.get_attribute("target"), out.get_attribute("rel")) == ("_blank", "noopener")
    assert form(page, "some").get_by_role("link").count() == 0


def test_a_question_about_the_own_profile_says_what_is_missing(page):
    assert "Profile a cell first" in form(page, "mine").inner_text()


def test_answers_are_there_again_in_a_new_panel_and_a_saved_notebook_has_the_questions(page, panel):
    for text in ("a", "c"):
        form(page, "some").get_by_label(text, exact=True).check()
    page.check("some")
    form(page, "number").get_by_label("workers").fill("5")
    page.check("number")
    again = QuizPanel(Quiz(panel.quiz.file, StudentRecord(), lambda: None))
    assert again.outcomes["some"]["is_over"]
    assert "yes a" in json.dumps(again.outcomes["some"])
    assert again.outcomes["number"]["left"] == "You can answer again, for 0.5 points."
    bundle = again._stand_in()
    assert "How many?" in bundle["text/html"]
    assert "two pairs" not in bundle["text/html"]
    again.close()
