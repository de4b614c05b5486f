"""What a student, teacher or author asks of the course: the words after `%accel labs`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, cast

from accel.errors import AccelError, UnknownName
from accel.labs.course.lab_files import StartedLab, start_lab
from accel.labs.course.lab_lint import Lint, lint, new_lab
from accel.labs.course.standing import CourseStanding, course_standing
from accel.labs.course.submission import Grades, grades_of_folder, own_grades

if TYPE_CHECKING:
    from accel.labs.course.fetching import Fetched
    from accel.labs.datasets import DatasetName

DOES = ("start", "export", "grade", "new", "check", "data")
NAMES = {"start": "a chapter", "grade": "a folder", "new": "a file", "check": "a file", "data": "a data set"}
EXAMPLES = {
    "start": "labs start 3", "grade": "labs grade handed_in", "new": "labs new my_lab", "check": "labs check my_lab.ipynb",
    "data": "labs data fetch",
}  # fmt: skip


def course(
    does: str | None, name: str | None, *, csv: bool
) -> CourseStanding | StartedLab | Grades | Lint | Fetched:
    """The list of labs, or what these words ask for; raises AccelError for words that ask for nothing.

    >>> course("start", "3").path
    PosixPath('03_compiling.ipynb')
    """
    if does is None:
        return course_standing()
    check_words(does, name, "accel")
    if does == "new":
        return new_lab(Path(str(name)))
    if does == "check":
        return lint(Path(str(name)))
    if does == "data":
        from accel.labs.course.fetching import fetch, fetch_all  # loads torch

        return fetch_all() if name == "fetch" else fetch(cast("DatasetName", name))
    if does in ("export", "grade"):
        grades = own_grades(name or "") if does == "export" else grades_of_folder(Path(str(name)))
        return replace(grades, as_csv=csv)
    return start_lab(int(name or does))


def check_words(does: str, name: str | None, program: str) -> None:
    """Raise AccelError for a word that is not known, or that needs a name."""
    if does.isdigit():
        return
    if does not in DOES:
        raise UnknownName("word after labs", does, DOES)
    if does in NAMES and not name:
        raise AccelError(
            f"{program} labs {does}", because=f"it names no {NAMES[does].removeprefix('a ')}",
            do=f"Write {program} {EXAMPLES[does]}.",
        )  # fmt: skip
    if does == "start" and not str(name).isdigit():
        raise AccelError(
            f"{program} labs start {name}",
            because="a lab is known by its number",
            do=f"Write {program} labs start 3.",
        )
