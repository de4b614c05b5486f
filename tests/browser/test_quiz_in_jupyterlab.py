"""A quiz where students meet it: answered by keyboard, wrongly and then rightly, and still known after the kernel restarts."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from accel.labs.quiz.questions import Single
from accel.labs.quiz.quiz import FOLDER
from accel.labs.quiz.quiz_file import read_quiz

pytestmark = pytest.mark.browser
CELLS = ("%load_ext accel", "%accel quiz 5")
QUESTION = next(each for each in read_quiz(FOLDER / "05.yaml").questions if isinstance(each, Single))
SHOWN = [QUESTION.options[place] for place in QUESTION.shuffled(len(QUESTION.options))]
RIGHT = next(at for at, option in enumerate(SHOWN) if option.correct)


def answer(page, at):
    """By keyboard alone, from the first option of the question: arrows choose, Tab goes to Check."""
    form = page.locator(f"form[data-question={QUESTION.id}]")
    form.get_by_role("radio").first.focus()
    page.keyboard.press("Space")
    for _ in range(at):
        page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    return form.get_by_test_id("outcome")


def test_answers_by_keyboard_outlive_the_kernel(notebook, server):
    page = notebook.open(server.add_notebook("quiz.ipynb", *CELLS)).page
    for index in range(len(CELLS)):
        notebook.run_cell(index)
    expect(page.get_by_test_id("score")).to_contain_text("0 of ")

    expect(answer(page, (RIGHT + 1) % len(SHOWN))).to_contain_text("Not yet.")
    outcome = answer(page, RIGHT)
    expect(outcome).to_contain_text("Right: 0.5 of 1 point.")
    expect(page.get_by_test_id("score")).to_contain_text("0.5 of ")
    expect(outcome).to_be_focused()

    page.evaluate(
        "async () => await window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()"
    )
    notebook.wait_until_ready()
    for index in range(len(CELLS)):
        notebook.run_cell(index)
    expect(page.get_by_test_id("score").last).to_contain_text("0.5 of ")
    expect(page.get_by_test_id("outcome").filter(has_text="Right: 0.5 of 1 point.").last).to_be_visible()
    assert notebook.errors_in_cells() == []
