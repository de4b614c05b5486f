"""A student's quiz: answers are kept and worth less each time, and questions about the own profile have its figures."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import accel
from accel import Workbench
from accel.errors import AccelError, UnknownName
from accel.labs.quiz.own_profile import ABOUT, Measured, NotInThisProfile, made_from
from accel.labs.quiz.questions import Numeric, Own, Single
from accel.labs.quiz.quiz import FOLDER, Quiz, open_quiz
from accel.labs.quiz.quiz_file import problems, read_quiz
from accel.labs.student_record import StudentRecord

CHAPTERS = sorted(int(path.stem) for path in FOLDER.glob("*.yaml"))
FILE = """
chapter: 5
title: Loading
questions:
  - {id: size, kind: numeric, lesson: l, ask: How many?, answer: 4, why: two pairs, otherwise: count}
  - {id: mine, kind: own, lesson: l, about: samples_per_second}
"""


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("ACCEL_HISTORY", str(tmp_path / "kept" / "history.sqlite"))
    (tmp_path / "05.yaml").write_text(FILE)
    return tmp_path / "05.yaml"


def quiz(file, measured=None):
    return Quiz(read_quiz(file), StudentRecord(), lambda: measured)


@pytest.mark.parametrize(("wrong", "points"), [(0, 1.0), (1, 0.5), (2, 0.25), (3, 0.0)])
def test_each_answer_is_worth_less_and_after_the_last_one_all_is_explained(file, wrong, points):
    mine = quiz(file)
    for _ in range(wrong):
        marking = mine.answer("size", "5")
        assert not marking.is_right
    last = mine.answer("size", "4")
    assert [each.why for each in last.remarks] == ["two pairs"]
    assert mine.standing("size").points == points
    assert mine.score().points == points


def test_the_score_is_still_there_in_another_process_and_a_third_wrong_answer_ends_the_question(file):
    quiz(file).answer("size", "5")
    assert quiz(file).standing("size").answers == 1
    quiz(file).answer("size", "4")
    assert str(quiz(file).score()) == "Quiz 5: 0.5 of 2 points (25 %), 1 question open."


def test_two_panels_of_one_quiz_count_their_answers_together(file):
    one, other = quiz(file), quiz(file)
    one.answer("size", "5")
    other.answer("size", "6")
    assert other.standing("size").answers == 2
    one.answer("size", "4")
    assert one.standing("size") == quiz(file).standing("size")
    assert one.standing("size").points == 0.25


def test_what_is_no_answer_costs_nothing(file):
    mine = quiz(file)
    with pytest.raises(AccelError):
        mine.answer("size", "four")
    assert mine.standing("size").answers == 0


def test_an_answer_to_an_earlier_wording_does_not_count(file):
    quiz(file).answer("size", "4")
    file.write_text(FILE.replace("How many?", "How many now?"))
    assert quiz(file).standing("size").answers == 0


def test_without_a_history_the_quiz_works_and_says_that_nothing_is_kept(file, monkeypatch):
    monkeypatch.setenv("ACCEL_HISTORY", "off")
    mine = quiz(file)
    assert mine.answer("size", "4").is_right
    assert "not kept: ACCEL_HISTORY is off" in str(mine.score())
    assert quiz(file).standing("size").answers == 0


def test_unknown_chapters_and_questions_are_named(file):
    with pytest.raises(UnknownName, match="quiz '77'"):
        open_quiz(77, measured=lambda: None)
    with pytest.raises(UnknownName, match="Did you mean 'size'"):
        quiz(file).answer("sise", "4")


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("answer: 4, ", "", "question 1"),
        ("kind: own", "kind: mine", "question 2"),
        ("why: two pairs", "why: two pairs, hint: none", "hint"),
        ("questions:", "questions", "05.yaml"),
    ],
)
def test_a_mistake_in_a_file_is_said_with_its_place(file, before, after, says):
    file.write_text(FILE.replace(before, after))
    with pytest.raises(AccelError, match=says):
        read_quiz(file)


# Questions about the own profile


@pytest.fixture(scope="module")
def measured():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    namespace = {
        "torch": torch, "model": model, "optimizer": torch.optim.Adam(model.parameters()),
        "loader": DataLoader(TensorDataset(torch.randn(1000, 64), torch.randint(10, (1000,))), batch_size=64),
    }  # fmt: skip
    cell = """
for x, y in loader:
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
    workbench = Workbench(namespace, spare_workers=0)
    profile = workbench.profile(cell)
    yield Measured(profile, workbench.workload), namespace
    workbench.close()


@pytest.mark.parametrize("about", ABOUT)
def test_every_question_about_a_profile_can_be_answered_from_it(measured, about):
    made = made_from(Own(id="mine", lesson="l", about=about), measured[0])
    assert made.id == "mine"
    assert not made.problems()
    if isinstance(made, Single):
        assert all(option.why for option in made.options)
    else:
        assert isinstance(made, Numeric)
        assert math.isfinite(made.answer)
        assert made.mark(f"{made.answer:.6g}").is_right
        assert not made.mark(str(made.answer + 3 * made.tolerance + 1)).is_right


def test_its_figures_are_those_of_the_training(measured):
    found, _ = measured
    answers = {about: make(found) for about, make in ABOUT.items()}
    assert answers["parameters"].answer == 64 * 256 + 256 + 256 * 10 + 10
    assert answers["steps_per_epoch_if_doubled"].answer == 8
    assert answers["samples_per_second"].answer == pytest.approx(64_000 / found.profile.step_ms)
    largest = max((each for each in found.profile.phases if not each.is_gap), key=lambda each: each.share)
    assert next(each.text for each in answers["largest_phase"].options if each.correct) == largest.name
    assert 0 < answers["matrix_share"].answer < 100


def test_without_a_profile_the_question_says_how_to_come_by_one(file):
    with pytest.raises(NotInThisProfile, match="Profile a cell first"):
        quiz(file).question("mine")


def test_a_question_stays_about_the_profile_that_it_was_shown_with(file, measured):
    profiles = [measured[0]]
    mine = Quiz(read_quiz(file), StudentRecord(), lambda: profiles[-1] if profiles else None)
    asked = mine.question("mine").ask
    profiles.clear()
    assert mine.question("mine").ask == asked


# The questions of the course


def test_the_course_has_a_quiz_for_each_of_its_eleven_chapters():
    assert list(range(1, 12)) == CHAPTERS


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapters_questions_are_enough_and_explained(chapter):
    found = read_quiz(FOLDER / f"{chapter:02}.yaml")
    assert found.chapter == chapter
    assert problems(found) == []
    assert len({each.kind if not isinstance(each, Own) else "own" for each in found.questions}) == 6
    for each in found.questions:
        if not isinstance(each, Own):
            assert all(len(remark.why.split()) >= 4 for remark in each.solution().remarks), each.id


def test_no_two_questions_are_alike():
    """By the words they share: rewording a question gives well above a half."""
    asked = {
        f"{chapter}/{each.id}": set(f"{each.ask} {each.asked()['choices']}".lower().split())
        for chapter in CHAPTERS
        for each in read_quiz(FOLDER / f"{chapter:02}.yaml").questions
        if not isinstance(each, Own)
    }
    names = list(asked)
    alike = [
        (one, other)
        for at, one in enumerate(names)
        for other in names[at + 1 :]
        if len(asked[one] & asked[other]) > 0.5 * len(asked[one] | asked[other])
    ]
    assert alike == []


def test_the_function_gives_the_quiz_of_the_notebook(file):
    panel = accel.quiz(CHAPTERS[0])
    assert panel.quiz.file.chapter == CHAPTERS[0]
    panel.close()
