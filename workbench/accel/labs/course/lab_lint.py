"""What is wrong with a lab, a chapter's file or a quiz: a line each; and the skeleton of a lab of one's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from accel.errors import AccelError
from accel.labs.course.chapter import Chapter, chapter_of, read_chapter
from accel.labs.course.lab_files import cells_of, headings_of
from accel.labs.quiz.quiz import FOLDER as QUIZZES
from accel.labs.quiz.quiz_file import read_quiz
from accel.shown import Shown

LONGEST_CODE, LONGEST_TEXT = 30, 200  # lines of a cell; words of one
SECTIONS = ("what-you-will-be-able-to-do", "the-same-in-plain-pytorch", "exercises", "summary", "quiz")
_OPENED = re.compile(r"""\baccel\.lab\(\s*(?:(\d+)|["']([^"']+)["'])""")
_CALLED = re.compile(r"""\blab\.(guess|measured|table|diagram|check|recorded)\(\s*["']([^"']+)["']""")
_PARTS = {
    "guess": "guesses", "measured": "guesses", "table": "tables", "diagram": "diagrams", "check": "exercises",
    "recorded": "recorded",
}  # fmt: skip


@dataclass(frozen=True)
class Lint(Shown):
    """What an author has to correct.

    >>> print(lint(Path("my_lab.ipynb")))
    """

    file: str
    problems: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {"file": self.file, "problems": list(self.problems)}


def lint(path: Path) -> Lint:
    """Look at a notebook (.ipynb), a chapter's file or a quiz (.yaml)."""
    return Lint(str(path), tuple(problems_of(path)))


def problems_of(path: Path) -> list[str]:
    """The same as lines.

    >>> problems_of(Path("notebooks/labs/05_data_pipeline.ipynb"))
    []
    """
    if path.suffix == ".ipynb":
        return [*_in_notebook(path)]
    try:
        _read_yaml(path)
    except AccelError as error:
        return [error.because]
    return []


def _read_yaml(path: Path) -> object:
    """A quiz has questions; all else is a chapter."""
    try:
        found = msgspec.yaml.decode(path.read_bytes())
    except (OSError, msgspec.DecodeError):
        return read_chapter(path)  # which says what is wrong
    return read_quiz(path) if isinstance(found, dict) and "questions" in found else read_chapter(path)


def _in_notebook(path: Path) -> Iterable[str]:
    cells = cells_of(path)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    opened = _OPENED.search("\n".join(cell["source"] for cell in code))
    if opened is None:
        yield "no cell opens the lab: lab = accel.lab(5), or accel.lab('my_lab.yaml')"
        return
    try:
        chapter = chapter_of(int(opened[1])) if opened[1] else read_chapter(path.parent / opened[2])
    except AccelError as error:
        yield str(error)
        return
    yield from _of_form(cells, code)
    yield from _of_headings(path, chapter, is_ours=bool(opened[1]))
    yield from _of_calls(code, chapter)


def _of_form(cells: list[dict[str, Any]], code: list[dict[str, Any]]) -> Iterable[str]:
    first = cells[0]["source"] if cells else ""
    if not first.startswith("# "):
        yield "the first cell is no title (# …)"
    for at, cell in enumerate(cells):
        lines, words = cell["source"].count("\n") + 1, len(cell["source"].split())
        if cell["cell_type"] == "code" and lines > LONGEST_CODE:
            yield f"cell {at + 1} has {lines} lines of code; {LONGEST_CODE} are a screen"
        if cell["cell_type"] == "markdown" and words > LONGEST_TEXT:
            yield f"cell {at + 1} has {words} words: give each idea a cell"
        if re.search(r"(?:src|href)=|!\[[^\]]*\]\(https?:", cell["source"]):
            yield f"cell {at + 1} takes a picture or HTML from elsewhere: draw it with lab.diagram"
    if any(cell.get("outputs") or cell.get("execution_count") for cell in code):
        yield "outputs are stored: remove them (nbstripout)"


def _of_headings(path: Path, chapter: Chapter, *, is_ours: bool) -> Iterable[str]:
    found = headings_of(path)
    yield from (f"the section {name.replace('-', ' ')} is missing" for name in SECTIONS if name not in found)
    quiz = QUIZZES / f"{chapter.chapter:02}.yaml"
    if is_ours and quiz.is_file():
        lessons = sorted({each.lesson for each in read_quiz(quiz).questions})
        yield from (
            f"the quiz asks about {name}, which no heading teaches" for name in lessons if name not in found
        )


def _of_calls(code: list[dict[str, Any]], chapter: Chapter) -> Iterable[str]:
    """Each name is in the chapter's file, each entry of the file is used, and a guess comes before its measurement."""
    calls = [(found[1], found[2], cell) for cell in code for found in _CALLED.finditer(cell["source"])]
    known = {part: [each.id for each in getattr(chapter, part)] for part in set(_PARTS.values())}
    for what, name, _ in calls:
        if name not in known[_PARTS[what]]:
            yield f"lab.{what}({name!r}): the chapter's file has no such entry"
    used = {(_PARTS[what], name) for what, name, _ in calls}
    yield from (
        f"{part}: nothing shows {name}"
        for part in sorted(known)
        for name in known[part]
        if (part, name) not in used
    )
    order = [(what, name) for what, name, _ in calls]
    for name in known["guesses"]:
        both = [order.index((what, name)) for what in ("guess", "measured") if (what, name) in order]
        if len(both) < 2 or both[0] > both[1]:
            yield f"guess {name}: lab.guess comes first, then lab.measured"
    points = {each.id: each.points for each in chapter.exercises}
    for what, name, cell in calls:
        if what == "check" and name in points:
            said = cell.get("metadata", {}).get("nbgrader", {})
            if not (said.get("grade") and said.get("locked") and said.get("points") == points[name]):
                yield f"check {name}: the cell needs nbgrader's metadata with {points[name]:g} points (accel labs new shows it)"


def new_lab(path: Path) -> Lint:
    """Write the skeleton of a lab: a notebook and its chapter; raises AccelError where a file is there already.

    >>> new_lab(Path("caching"))        # caching.ipynb, caching.yaml
    """
    notebook, chapter = path.with_suffix(".ipynb"), path.with_suffix(".yaml")
    for each in (notebook, chapter):
        if each.exists():
            raise AccelError(
                f"A new lab at {path}", because=f"{each} is there already", do="Give another name."
            )
    text = (Path(__file__).parent / "skeleton.yaml").read_text(encoding="utf-8")
    cells = msgspec.yaml.decode((Path(__file__).parent / "skeleton_cells.yaml").read_bytes())
    try:
        chapter.write_text(text, encoding="utf-8")
        notebook.write_text(json.dumps(_notebook(cells, chapter.name), indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise AccelError(
            f"A new lab at {path}",
            because=f"it cannot be written ({error.strerror})",
            do="Write it elsewhere.",
        ) from None
    return Lint(str(notebook), tuple(problems_of(notebook)))


def _notebook(cells: list[dict[str, str]], chapter: str) -> dict[str, Any]:
    made: list[dict[str, Any]] = []
    for at, cell in enumerate(cells):
        (kind, source), *more = cell.items()
        metadata = {"nbgrader": {
            "grade": True, "grade_id": f"check-{more[0][1]}", "locked": True, "points": 2.0, "schema_version": 3,
            "solution": False, "task": False,
        }} if more else {}  # fmt: skip
        lines = source.strip().replace("CHAPTER_FILE", chapter).splitlines(keepends=True)
        body = {"id": f"cell-{at}", "cell_type": kind, "metadata": metadata, "source": lines}
        made.append(body | ({"execution_count": None, "outputs": []} if kind == "code" else {}))
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {
        "cells": made, "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}}, "nbformat": 4,
        "nbformat_minor": 5,
    }  # fmt: skip
