"""A lab in its notebook: guesses and checks are kept, and what a file cannot mean is refused by name."""

from __future__ import annotations

import math

import pytest

import accel
from accel.errors import AccelError, UnknownName
from accel.labs.course.chapter import chapter_numbers, chapter_of, read_chapter
from accel.labs.course.lab import open_lab
from accel.labs.course.standing import chapter_standing
from accel.labs.exercises import CHECKS, check_named
from accel.labs.exercises.seen import measured
from accel.labs.quiz.quiz import open_quiz

FILE = """
chapter: 99
title: A <b>lab</b>
about: one line
minutes: 45
guesses:
  - {id: share, ask: What share?, unit: "%", course: 44.0, conditions: on 16 cores}
tables:
  - id: seconds
    title: Seconds
    conditions: on an A100
    columns: [plan, course s]
    rows: [[plain, 1892], [8 workers, 846]]
    yours: [here s]
exercises:
  - {id: half, ask: Halve it., check: share_below, needs: {most: 0.5}, hint: look again}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The lab's file; its check takes a number."""
    from accel.labs.exercises import seen, table

    def share_below(share, *, most):
        if not isinstance(share, float):
            raise seen.wrong_work("share_below", "this is no share", "Pass a number.")
        return seen.Seen(share <= most, f"A share of {share:g}.", f"At most {most:g}.", {"share": share})

    monkeypatch.setenv("ACCEL_HISTORY", str(tmp_path / "history.sqlite"))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    monkeypatch.setitem(table.CHECKS, "share_below", "of_shares")
    monkeypatch.setattr("accel.labs.course.grading.check_named", lambda name: share_below)
    (tmp_path / "own.yaml").write_text(FILE)
    return tmp_path / "own.yaml"


def test_a_guess_outlives_the_kernel_and_stands_next_to_what_was_measured(file):
    panel = open_lab(file).guess("share")
    panel.guess.give("35 %")
    panel.close()
    outcome = open_lab(file).measured("share", 41)
    assert (outcome.guess, outcome.measured, outcome.course, outcome.is_close) == (35.0, 41.0, 44.0, True)
    assert open_lab(file).measured("share", 80).verdict.startswith("Your guess was too low")


def test_a_cell_that_measures_before_any_guess_says_so(file):
    outcome = open_lab(file).measured("share", 41)
    assert math.isnan(outcome.guess)
    assert "no guess" in outcome.verdict


def test_a_guess_is_known_where_nothing_can_be_kept(file, monkeypatch):
    monkeypatch.setenv("ACCEL_HISTORY", "off")
    lab = open_lab(file)
    panel = lab.guess("share")
    panel.guess.give("35")
    panel.close()
    assert lab.measured("share", 41).guess == 35.0


def test_a_word_is_no_guess(file):
    panel = open_lab(file).guess("share")
    with pytest.raises(AccelError, match="'many' is no number"):
        panel.guess.give("many")
    panel.close()


def test_a_table_has_the_students_figures_in_the_rows_of_the_course(file):
    lab = open_lab(file)
    assert lab.table("seconds").columns == ("plan", "course s")
    mine = lab.table("seconds", {"plain": 12.5})
    assert mine.rows == (("plain", 1892, 12.5), ("8 workers", 846, None))
    with pytest.raises(UnknownName, match="plain"):
        lab.table("seconds", {"plian": 12.5})
    with pytest.raises(AccelError, match="2 figures were given for 1 columns"):
        lab.table("seconds", {"plain": (1.0, 2.0)})


def test_a_pass_is_kept_with_its_evidence_and_stays(file):
    lab = open_lab(file)
    assert not lab.check("half", 0.7).passed
    assert lab.check("half", 0.7).hint == "look again"
    assert lab.check("half", 0.4).points == 2
    lab.check("half", 0.9)
    kept = lab.record.exercises(99)
    assert [each.passed for each in kept] == [False, False, True, False]
    assert '"share": 0.4' in kept[2].figures
    with pytest.raises(AccelError, match="no share"):
        lab.check("half", "much")


def test_nbgrader_sees_an_error_where_a_check_is_not_passed_and_nothing_is_kept(file, monkeypatch):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    lab = open_lab(file)
    with pytest.raises(AccelError, match=r"A share of 0\.7"):
        lab.check("half", 0.7)
    assert lab.check("half", 0.4).passed
    assert lab.record.exercises(99) == []


def test_experiments_are_as_large_as_asked(file, monkeypatch):
    sizes = {"quick": 1, "normal": 3, "full": 10}
    assert open_lab(file).choose(**sizes) == 3
    assert open_lab(file, "full").choose(**sizes) == 10
    monkeypatch.setenv("ACCEL_LABS", "quick")
    assert open_lab(file).choose(**sizes) == 1
    with pytest.raises(UnknownName, match="quick"):
        open_lab(file, "quikc")


@pytest.mark.parametrize(("wrong", "said"), [
    (FILE.replace("minutes: 45\n", ""), "missing required field minutes"),
    (FILE.replace("check: share_below", "check: share_over"), "exercise half: there is no check share_over"),
    (FILE.replace("[8 workers, 846]", "[8 workers]"), "table seconds: row 8 workers has 1 cells for 2 columns"),
    (FILE.replace("id: share", "id: My share"), "guess My share: a name has lower-case words with dashes"),
])  # fmt: skip
def test_a_mistake_in_a_file_is_named(file, wrong, said):
    file.write_text(wrong)
    with pytest.raises(AccelError, match=said):
        read_chapter(file)


def test_what_is_near_its_threshold_is_measured_again_and_the_median_decides():
    near = iter([1.25, 1.4, 1.35])
    assert measured(lambda: next(near), at_least=1.3) == (True, 1.35, 3)
    assert measured(lambda: 2.0, at_least=1.3) == (True, 2.0, 1)
    assert measured(lambda: 0.5, at_most=0.1, first=0.02) == (True, 0.02, 1)


@pytest.mark.parametrize("number", chapter_numbers())
def test_each_chapter_reads_and_counts_every_point_that_it_offers(number, file):
    chapter = chapter_of(number)
    assert 45 <= chapter.minutes <= 90
    assert len(chapter.exercises) >= 2
    assert len(chapter.guesses) >= 2
    standing = chapter_standing(number)
    quiz = open_quiz(number, measured=lambda: None)
    assert standing.most == sum(each.points for each in chapter.exercises) + len(quiz.names)
    assert standing.points == 0


def test_the_course_has_eleven_chapters_and_each_check_serves_one():
    assert chapter_numbers() == list(range(1, 12))
    used = {each.check for number in chapter_numbers() for each in chapter_of(number).exercises}
    assert used == set(CHECKS)
    assert all(callable(check_named(name)) for name in CHECKS)


def test_a_chapter_that_there_is_not_is_an_error_with_those_that_there_are():
    with pytest.raises(UnknownName, match="11"):
        accel.lab(12)


def test_what_the_students_work_raises_in_a_check_is_said_in_words(file, monkeypatch):
    def raises(share, *, most):
        raise KeyError("images")

    monkeypatch.setattr("accel.labs.course.grading.check_named", lambda name: raises)
    with pytest.raises(AccelError, match="your work raised KeyError"):
        open_lab(file).check("half", 0.4)
    with pytest.raises(AccelError, match="missing a required argument"):
        open_lab(file).check("half")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_measurement_that_is_none_judges_no_guess(file, value):
    lab = open_lab(file)
    lab.guess("share").guess.give("35")
    found = lab.measured("share", value)
    assert not found.is_close
    assert "Nothing was measured" in found.verdict
