"""A student's quiz: answers are kept and worth less each time, and questions about the own profile have its figures."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset

import accel
from accel import Workbench
from accel.errors import AccelError, UnknownName
from accel.labs.quiz.own_profile import ABOUT, Measured, NotInThisProfile, made_from
from accel.labs.quiz.questions import Numeric, Own, Single
from accel.labs.quiz.quiz import FOLDER, Quiz, open_quiz
from accel.labs.quiz.quiz_file import read_quiz
from accel.labs.student_record import StudentRecord
from accel.profiling.op_table import OpRow
from accel.profiling.step_timing import PhaseShare

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
    for number in range(wrong):
        marking = mine.answer("size", str(5 + number))
        assert not marking.is_right
    last = mine.answer("size", "4")
    assert [each.why for each in last.remarks] == ["two pairs"]
    assert mine.standing("size").points == points
    assert mine.score().points == points


def test_the_same_answer_sent_twice_counts_once(file):
    mine = quiz(file)
    for _ in range(3):
        assert not mine.answer("size", "5").is_right
    assert mine.standing("size").answers == 1


def test_an_answer_that_could_not_be_written_is_written_with_the_next_one(file, tmp_path):
    (tmp_path / "kept").write_text("a file where the folder belongs")
    mine = quiz(file)
    mine.answer("size", "5")
    assert "cannot be used" in mine.score().problem
    assert mine.standing("size").answers == 1
    (tmp_path / "kept").unlink()
    mine.answer("size", "4")
    assert mine.score().problem == ""
    assert quiz(file).standing("size") == mine.standing("size")
    assert mine.standing("size").points == 0.5


def test_the_score_is_still_there_in_a_quiz_that_is_opened_later(file):
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
    file.write_text(FILE.replace("two pairs", "two pairs of two"))  # an explanation that was corrected
    assert quiz(file).standing("size").is_right


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
        ("id: mine", "id: size", "size: stands 2 times"),
        ("about: samples_per_second", "about: luck", "no question about luck"),
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
    # Which phase and which operation are largest would be the machine's whim.
    shares = {"data": 0.3, "forward": 0.15, "backward": 0.25, "optimizer": 0.2}
    phases = tuple(PhaseShare(name, share, share * profile.step_ms) for name, share in shares.items())
    largest = max((row for row in profile.ops if row.op.startswith("aten::")), key=lambda row: row.self_ms)
    others = [row for row in profile.ops if row is not largest]
    yield (
        Measured(
            dataclasses.replace(
                profile,
                timing=dataclasses.replace(profile.timing, phases=phases),
                rows=(dataclasses.replace(largest, self_ms=profile.step_ms), *others),
            ),
            workbench.workload,
        ),
        namespace,
    )
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
    assert [each.text for each in answers["largest_phase"].options if each.correct] == ["data"]
    assert answers["backward_over_forward"].answer == pytest.approx(25 / 15)
    assert 0 < answers["matrix_share"].answer < 100


@pytest.mark.parametrize(("drop_last", "now", "doubled"), [(False, 8, 4), (True, 7, 3)])
def test_steps_are_counted_from_what_the_sampler_gives(measured, drop_last, now, doubled):
    found, namespace = measured
    loader = DataLoader(range(1000), 64, sampler=SubsetRandomSampler(range(500)), drop_last=drop_last)
    with_it = dataclasses.replace(found.workload, namespace=namespace | {"loader": loader})
    made = ABOUT["steps_per_epoch_if_doubled"](Measured(found.profile, with_it))
    assert made.answer == doubled
    assert [near.value for near in made.near] == [now]


def test_of_two_phases_that_look_alike_neither_is_asked_for(measured):
    shares = {"data": 0.1, "forward": 0.399, "backward": 0.401}
    phases = tuple(PhaseShare(name, share, share) for name, share in shares.items())
    profile = measured[0].profile
    tied = dataclasses.replace(profile, timing=dataclasses.replace(profile.timing, phases=phases))
    with pytest.raises(NotInThisProfile, match="backward and forward took the same time"):
        ABOUT["largest_phase"](Measured(tied, measured[0].workload))


@pytest.mark.parametrize("share", [0.904, 0.955, 0.344])
def test_the_best_case_is_that_of_the_share_which_the_question_names(measured, share):
    timing = dataclasses.replace(measured[0].profile.timing, phases=(PhaseShare("data", share, 1.0),))
    made = ABOUT["best_case_without_waiting"](
        Measured(dataclasses.replace(measured[0].profile, timing=timing), measured[0].workload)
    )
    named = int(made.ask.split("took ")[1].split(" %")[0]) / 100
    assert made.mark(f"{1 / (1 - named):.3g}").is_right


def test_on_a_gpu_operations_are_compared_by_their_kernels(measured):
    rows = (
        OpRow("aten::mm", "forward", "", 1.0, 0.1, 1.0, device_ms=8.0),
        OpRow("aten::add", "forward", "", 6.0, 0.6, 1.0, device_ms=1.5),
        OpRow("aten::mul", "forward", "", 3.0, 0.3, 1.0, device_ms=0.5),
    )
    found = Measured(dataclasses.replace(measured[0].profile, rows=rows), measured[0].workload)
    assert ABOUT["matrix_share"](found).answer == pytest.approx(80)
    options = ABOUT["costliest_operation"](found).options
    assert [option.text for option in options if option.correct] == ["`aten::mm`"]


def test_questions_stay_about_the_training_after_another_cell_was_profiled():
    workbench = Workbench({"torch": torch, "w": torch.ones(3, requires_grad=True)}, spare_workers=0)
    workbench.namespace["optimizer"] = torch.optim.SGD([workbench.namespace["w"]], lr=0.1)
    trained = workbench.profile("for _ in range(9):\n    w.sum().backward()\n    optimizer.step()")
    workbench.profile("total = sum(range(10))")
    assert workbench.profile_of_workload is trained
    workbench.close()


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
    assert len(found.questions) >= 12
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
    assert panel.score().chapter == CHAPTERS[0]
    panel.close()
