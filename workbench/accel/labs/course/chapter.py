"""What the file of a chapter holds: labs/chapters/05.yaml, with all that the lab's notebook calls by name."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Struct

from accel.errors import UnknownName
from accel.labs.course.diagram import Boxes, Lanes
from accel.labs.exercises import CHECKS
from accel.labs.form_file import is_name, read_form, wrong_form

FOLDER = Path(__file__).parent.parent / "chapters"
RECORDED = FOLDER.parent / "recorded"
NOT_ASKED = ("hint", "points", "course", "conditions")
FORM = {"what": "chapter", "described_in": "docs/how-to/class.md"}


class GuessForm(Struct, frozen=True, forbid_unknown_fields=True):
    """A number that the student commits to before it is measured; `course` is the course's own figure."""

    id: str
    ask: str
    unit: str = ""
    course: float | None = None
    conditions: str = ""  # of the course's figure


class TableForm(Struct, frozen=True, forbid_unknown_fields=True):
    """Figures of the course: a row starts with its name; `yours` are the columns that a student's machine fills."""

    id: str
    title: str
    conditions: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | int | float, ...], ...]
    yours: tuple[str, ...] = ()


class ExerciseForm(Struct, frozen=True, forbid_unknown_fields=True):
    """What a student has to bring; `check` names the function in `exercises.CHECKS`, `needs` are its keywords."""

    id: str
    ask: str
    check: str
    hint: str
    needs: dict[str, Any] = {}
    points: float = 2.0


class RecordedForm(Struct, frozen=True, forbid_unknown_fields=True):
    """A result of hardware that a reader may lack: a file in labs/recorded, and on what it was recorded."""

    id: str
    file: str
    recorded_on: str


class Chapter(Struct, frozen=True, forbid_unknown_fields=True):
    """A chapter of the course, as its file says."""

    chapter: int
    title: str
    about: str  # one line for the list
    minutes: int
    guesses: tuple[GuessForm, ...] = ()
    tables: tuple[TableForm, ...] = ()
    diagrams: tuple[Boxes | Lanes, ...] = ()
    exercises: tuple[ExerciseForm, ...] = ()
    recorded: tuple[RecordedForm, ...] = ()


class Entry(Protocol):
    """What is known by a name."""

    @property
    def id(self) -> str: ...


Found = TypeVar("Found", bound=Entry)


def named(entries: Sequence[Found], name: str, what: str) -> Found:
    """The entry of that name; raises UnknownName with the nearest right one.

    >>> named(chapter.guesses, "waiting-share", "guess").unit
    '%'
    """
    found = next((each for each in entries if each.id == name), None)
    if found is None:
        raise UnknownName(what, name, [each.id for each in entries])
    return found


def read_chapter(path: Path) -> Chapter:
    """Read a chapter's file; raises AccelError that names the first mistake.

    >>> read_chapter(FOLDER / "05.yaml").title
    'An efficient data pipeline'
    """
    chapter = read_form(path, Chapter, **FORM)
    if wrong := [*problems(chapter), *_missing(chapter, RECORDED if path.parent == FOLDER else path.parent)]:
        raise wrong_form(path, wrong[0], **FORM)
    return chapter


def _missing(chapter: Chapter, folder: Path) -> list[str]:
    """Recorded results whose file is not in the folder, or is a path to elsewhere."""
    files = [(each.id, each.file) for each in chapter.recorded]
    return [
        f"recorded {name}: there is no file {file} in {folder}"
        for name, file in files
        if Path(file).name != file or not (folder / file).is_file()
    ]


def chapter_of(number: int) -> Chapter:
    """A chapter of the course; raises UnknownName for one that it has not."""
    path = FOLDER / f"{number:02}.yaml"
    if not path.is_file():
        raise UnknownName("lab", str(number), [str(each) for each in chapter_numbers()])
    return read_chapter(path)


def chapter_numbers() -> list[int]:
    """The chapters that there are."""
    return sorted(int(each.stem) for each in FOLDER.glob("*.yaml") if re.fullmatch(r"\d\d", each.stem))


def problems(chapter: Chapter) -> list[str]:
    """What an author has to correct: a line each."""
    lists: dict[str, Sequence[Entry]] = {
        "guess": chapter.guesses, "table": chapter.tables, "diagram": chapter.diagrams,
        "exercise": chapter.exercises, "recorded": chapter.recorded,
    }  # fmt: skip
    found = []
    for what, entries in lists.items():
        names = [each.id for each in entries]
        found += [f"{what} {name}: stands {n} times" for name, n in Counter(names).items() if n > 1]
        found += [
            f"{what} {name}: a name has lower-case words with dashes" for name in names if not is_name(name)
        ]
    for table in chapter.tables:
        found += [
            f"table {table.id}: row {', '.join(map(str, row[:1]))} has {len(row)} cells for {len(table.columns)} columns"
            for row in table.rows
            if len(row) != len(table.columns)
        ]
    found += [
        f"exercise {each.id}: there is no check {each.check}"
        for each in chapter.exercises
        if each.check not in CHECKS
    ]
    for drawing in chapter.diagrams:
        found += [f"diagram {drawing.id}: {problem}" for problem in drawing.problems()]
    return found


def version_of(form: Struct) -> str:
    """A short hash of what an entry asks: a record of another one of that name does not count.

    Hints, points and the course's figure can be corrected in mid-term; no student loses a pass by that.
    """
    asked = {name: value for name, value in msgspec.to_builtins(form).items() if name not in NOT_ASKED}
    return hashlib.sha256(msgspec.json.encode(asked, order="sorted")).hexdigest()[:12]
