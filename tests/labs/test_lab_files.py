"""Notebooks of the course: copied without harm, and each holds what its chapter's file and quiz promise."""

from __future__ import annotations

import json

import pytest

from accel.cli import answer
from accel.errors import AccelError, UnknownName
from accel.labs.course.chapter import chapter_numbers, chapter_of
from accel.labs.course.lab_files import cells_of, headings_of, notebook_of, start_lab
from accel.labs.course.lab_lint import new_lab, problems_of
from accel.labs.quiz.quiz import FOLDER


def test_a_lab_is_copied_once_and_a_changed_copy_is_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = start_lab(1)
    assert first.path.read_bytes() == notebook_of(1).read_bytes()
    assert not first.was_there
    first.path.write_text("mine")
    again = start_lab(1)
    assert (again.was_there, again.is_changed) == (True, True)
    assert first.path.read_text() == "mine"
    assert "with changes" in answer(["labs", "start", "1"])


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path):
    with pytest.raises(AccelError, match="cannot be written"):
        start_lab(1, tmp_path / "missing")


@pytest.mark.parametrize(
    "words",
    [["labs", "begin"], ["labs", "start"], ["labs", "start", "three"], ["labs", "99"], ["labs", "grade"]],
)
def test_a_wrong_word_after_labs_is_an_error_with_what_to_do(words):
    with pytest.raises((AccelError, UnknownName)):
        answer(words)


@pytest.mark.parametrize("number", chapter_numbers())
def test_a_lab_and_its_files_have_no_problems(number):
    assert problems_of(notebook_of(number)) == []
    assert problems_of(FOLDER / f"{number:02}.yaml") == []


@pytest.mark.parametrize("number", chapter_numbers())
def test_a_lab_reads_without_a_kernel(number):
    cells = cells_of(notebook_of(number))
    words = sum(len(cell["source"].split()) for cell in cells if cell["cell_type"] == "markdown")
    assert words > 900
    assert cells[0]["source"].startswith("# ")
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in code)
    assert not any(each.hint in cell["source"] for cell in cells for each in chapter_of(number).exercises)


@pytest.mark.parametrize(("change", "said"), [
    (lambda cells: cells[0].update(source="no title"), "the first cell is no title"),
    (lambda cells: cells[7].update(source="x = 1\n" * 40), "lines of code"),
    (lambda cells: cells[6].update(source='lab.guess("other")'), "has no such entry"),
    (lambda cells: cells[-2].update(source="## Nothing"), "the section summary is missing"),
    (lambda cells: cells[-3].update(metadata={}), "the cell needs nbgrader's metadata"),
    (lambda cells: cells[7].update(outputs=[{"output_type": "stream"}]), "outputs are stored"),
    (lambda cells: cells[3].update(source='<img src="https://x">', cell_type="markdown"), "draw it with lab.diagram"),
])  # fmt: skip
def test_a_mistake_in_a_lab_is_named(tmp_path, change, said):
    new_lab(tmp_path / "own")
    path = tmp_path / "own.ipynb"
    book = json.loads(path.read_text())
    book["cells"] = [cell | {"source": "".join(cell["source"])} for cell in book["cells"]]
    change(book["cells"])
    path.write_text(json.dumps(book))
    assert any(said in each for each in problems_of(path)), problems_of(path)


def test_the_skeleton_of_a_new_lab_has_no_problems_and_is_never_written_over(tmp_path):
    assert new_lab(tmp_path / "own").problems == ()
    with pytest.raises(AccelError, match="is there already"):
        new_lab(tmp_path / "own")
    assert "own.yaml" in (tmp_path / "own.ipynb").read_text()
    assert "a-lesson" in headings_of(tmp_path / "own.ipynb")


def test_a_file_that_is_no_notebook_is_an_error(tmp_path):
    (tmp_path / "a.ipynb").write_text("{}")
    with pytest.raises(AccelError, match="is no notebook"):
        problems_of(tmp_path / "a.ipynb")
