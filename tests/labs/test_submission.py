"""A class: what students hand in is marked again, and the table has nbgrader's columns."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest

from accel.cli import answer
from accel.errors import AccelError
from accel.labs.course.chapter import chapter_of, version_of
from accel.labs.course.submission import COLUMNS, grades_of_folder, own_grades
from accel.labs.quiz.questions import Single
from accel.labs.quiz.quiz import open_quiz
from accel.labs.student_record import ExerciseRecord, GuessRecord, StudentRecord, now


@pytest.fixture
def student(tmp_path, monkeypatch):
    """One who has passed an exercise of chapter 1, answered a question rightly and made a guess without measuring."""
    monkeypatch.setenv("ACCEL_HISTORY", str(tmp_path / "own" / "history.sqlite"))
    exercise = chapter_of(1).exercises[0]
    quiz = open_quiz(1, measured=lambda: None)
    name = next(each.id for each in quiz.file.questions if isinstance(each, Single))
    question = quiz.question(name)
    right = question.shuffled(len(question.options)).index(next(iter(question.right)))
    assert quiz.answer(name, right).is_right
    StudentRecord().add([
        ExerciseRecord(1, exercise.id, version_of(exercise), True, '{"saw": "1 %"}', "a machine", now()),
        GuessRecord(1, chapter_of(1).guesses[0].id, version_of(chapter_of(1).guesses[0]), now(), 35.0),
    ])  # fmt: skip
    return tmp_path, exercise.points + 1


def test_what_is_handed_in_is_graded_as_it_stands_at_home(student):
    folder, points = student
    (folder / "ada.json").write_text(answer(["labs", "export", "ada", "--json"]))
    grades = grades_of_folder(folder)
    assert grades.rows[0].score == points == own_grades().rows[0].score
    assert {row.student for row in grades.rows} == {"ada"}
    assert f"{points:g}" in str(grades)
    assert grades.problems == ()


def test_the_table_has_nbgraders_columns(student):
    folder, points = student
    (folder / "ada.json").write_text(json.dumps(own_grades("=ada()").to_dict()))
    rows = list(csv.DictReader(io.StringIO(answer(["labs", "grade", str(folder), "--csv"]))))
    assert tuple(rows[0]) == COLUMNS
    assert (rows[0]["assignment"], float(rows[0]["score"])) == ("lab01", points)
    assert rows[0]["student_id"] == "'=ada()"  # no spreadsheet runs it


def test_an_answer_that_is_marked_right_in_the_file_is_marked_again(student):
    folder, points = student
    work = own_grades("eve").to_dict()
    work["answers"][0]["answer"] = "99"
    (folder / "eve.json").write_text(json.dumps(work))
    assert grades_of_folder(folder).rows[0].score == points - 1


@pytest.mark.parametrize(("content", "said"), [
    ("{", "Input data was truncated"), ('{"format": 2, "student": "a", "time": ""}', "has format 2"), ("[]", "Expected object"),
])  # fmt: skip
def test_a_file_that_cannot_be_read_is_named_and_the_others_are_graded(student, content, said):
    folder, points = student
    (folder / "ada.json").write_text(json.dumps(own_grades("ada").to_dict()))
    (folder / "bad.json").write_text(content)
    grades = grades_of_folder(folder)
    assert grades.rows[0].score == points
    assert "bad.json" in grades.problems[0]
    assert said in grades.problems[0]


def test_a_folder_without_files_is_an_error_that_says_what_belongs_there(tmp_path):
    with pytest.raises(AccelError, match="accel labs export --json"):
        grades_of_folder(tmp_path)


def test_two_files_of_one_student_are_two_rows_and_told(student):
    folder, _ = student
    for name in ("a.json", "b.json"):
        (folder / name).write_text(json.dumps(own_grades("ada").to_dict()))
    grades = grades_of_folder(folder)
    assert grades.problems == ("ada handed in 2 files: each is a row of its own.",)
    assert str(grades).count("\nada  ") == 2


@pytest.mark.parametrize("figures", ["oops", "[1]", '"words"', "[" * 100_000])
def test_figures_that_are_no_evidence_end_nobodys_grading(student, figures):
    folder, points = student
    handed_in = own_grades("ada").to_dict()
    handed_in["exercises"][0]["figures"] = figures
    (folder / "ada.json").write_text(json.dumps(handed_in))
    assert grades_of_folder(folder).rows[0].score == points


def test_what_cannot_be_read_is_said_next_to_the_table_for_a_file(student, capsys):
    folder, _ = student
    (folder / "ada.json").write_text(json.dumps(own_grades("ada\x1b[2J").to_dict()))
    (folder / "bob.json").write_text("{")
    assert "bob" not in answer(["labs", "grade", str(folder), "--csv"])
    assert "The file bob.json" in capsys.readouterr().err
    assert "\x1b" not in str(grades_of_folder(folder))


def test_a_corrected_hint_takes_no_pass_away():
    form = chapter_of(1).exercises[0]
    assert version_of(form) == version_of(msgspec.structs.replace(form, hint="better", points=9.0))
    assert version_of(form) != version_of(msgspec.structs.replace(form, ask="something else"))
