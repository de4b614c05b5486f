"""What a student hands in, as JSON, and a class of them as a table of grades in nbgrader's columns."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from accel.errors import AccelError
from accel.labs.course.standing import course_standing
from accel.labs.quiz.questions import Own
from accel.labs.quiz.quiz import FOLDER
from accel.labs.quiz.quiz_file import read_quiz
from accel.labs.student_record import TABLES, AnswerRecord, ExerciseRecord, GuessRecord, StudentRecord, now
from accel.shown import Shown

if TYPE_CHECKING:
    import pandas

FORMAT = 1
MOST_BYTES = 50_000_000  # of one file that was handed in
# As `nbgrader export` writes them.
COLUMNS = (
    "assignment", "duedate", "timestamp", "student_id", "last_name", "first_name", "email", "raw_score",
    "late_submission_penalty", "score", "max_score",
)  # fmt: skip
Record = TypeVar("Record")


class Submission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The file that a student hands in: all that is kept of their work."""

    format: int
    student: str
    time: str
    answers: tuple[AnswerRecord, ...] = ()
    guesses: tuple[GuessRecord, ...] = ()
    exercises: tuple[ExerciseRecord, ...] = ()


@dataclass(frozen=True)
class Grade:
    """One student's points in one chapter; `time` is that of their last answer or check, "" where there is none."""

    student: str
    chapter: int
    time: str
    score: float
    most: float

    @property
    def row(self) -> tuple[str | float, ...]:
        """In nbgrader's columns; what accel does not know is empty, as nbgrader leaves it."""
        return (
            f"lab{self.chapter:02}",
            "",
            self.time,
            self.student,
            "",
            "",
            "",
            self.score,
            0.0,
            self.score,
            self.most,
        )


@dataclass(frozen=True)
class Grades(Shown):
    """Grades of one student or of a class; `problems` are files that could not be read.

    >>> print(grades_of_folder(Path("handed_in")).csv)
    """

    rows: tuple[Grade, ...]
    submission: Submission | None = None  # of this machine's student: what `--json` prints, to be handed in
    problems: tuple[str, ...] = ()
    as_csv: bool = False  # how it prints

    @property
    def csv(self) -> str:
        """In nbgrader's columns; a cell that a spreadsheet would run as a formula starts with an apostrophe."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [COLUMNS, *(map(_harmless, row.row) for row in self.rows)]
        )
        return text.getvalue()

    @property
    def is_data(self) -> bool:
        """Whether it is printed for a file, which has no place for problems."""
        return self.as_csv or self.submission is not None

    def to_dict(self) -> dict[str, Any]:
        """What is handed in; of a class, its grades."""
        if self.submission is not None:
            found: dict[str, Any] = msgspec.to_builtins(self.submission)
            return found | {"guesses": [_without_nan(each) for each in found["guesses"]]}
        return {"grades": [asdict(row) for row in self.rows], "problems": list(self.problems)}

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a student and chapter, in nbgrader's columns."""
        import pandas

        return pandas.DataFrame([row.row for row in self.rows], columns=list(COLUMNS))


class HandedIn(StudentRecord):
    """The records of a file that was handed in, as if they were this machine's; nothing can be added."""

    def __init__(self, submission: Submission) -> None:
        self.problem = ""
        self._records: dict[type, Sequence[Any]] = {
            AnswerRecord: _marked_again(submission.answers), GuessRecord: submission.guesses,
            ExerciseRecord: submission.exercises,
        }  # fmt: skip

    def read(self, record: type[Record]) -> list[Record]:
        """All of a kind, oldest first."""
        return list(self._records[record])

    def add(self, records: Iterable[Any]) -> bool:
        """Never."""
        return False


def own_grades(student: str = "") -> Grades:
    """The grades of this machine's student, with what they hand in.

    Args:
        student: The name to hand it in under. "": the name of the user.
    """
    record = StudentRecord()
    kept: dict[str, Any] = {table: tuple(record.read(kind)) for kind, table in TABLES.items()}
    submission = Submission(FORMAT, student or _user(), now(), **kept)
    problems = (record.problem,) if record.problem else ()
    return replace(_grades([submission]), submission=submission, problems=problems)


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a container's user may have no name
        raise AccelError(
            "Your grades", because="the user of this machine has no name", do="Write accel labs export NAME."
        ) from None


def grades_of_folder(folder: Path) -> Grades:
    """The grades of all files in a folder, `accel labs export --json` each; raises AccelError where there are none."""
    files = sorted(folder.glob("*.json"))
    if not files:
        raise AccelError(
            f"Grading {folder}", because="it holds no .json file",
            do="Put the files there that students wrote with accel labs export --json.",
        )  # fmt: skip
    read, problems = [], []
    for file in files:
        try:
            read.append(read_submission(file))
        except AccelError as error:
            problems.append(str(error))
    return replace(_grades(read), problems=(*problems, *_twice(read)))


def read_submission(path: Path) -> Submission:
    """Read what a student handed in; raises AccelError that names what is wrong."""

    def wrong(because: str) -> AccelError:
        return AccelError(
            f"The file {path.name}", because=because, do="It should be what accel labs export --json prints."
        )

    try:
        if path.stat().st_size > MOST_BYTES:
            raise wrong("it is too large for one student's work")
        found = msgspec.json.decode(path.read_bytes(), type=Submission)
    except OSError as error:
        raise wrong(f"it cannot be read ({error.strerror})") from None
    except (msgspec.DecodeError, ValueError) as error:
        raise wrong(str(error).replace("`", "")) from None
    if found.format != FORMAT:
        raise wrong(f"it has format {found.format}; this version of accel knows {FORMAT}")
    return found


def _without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has no NaN; what is left out is read as it."""
    return {name: value for name, value in values.items() if value == value}


def _grades(submissions: Iterable[Submission]) -> Grades:
    rows = []
    for each in submissions:
        for chapter in course_standing(HandedIn(each)).chapters:
            rows.append(Grade(each.student, chapter.chapter, chapter.last_time, chapter.points, chapter.most))
    return Grades(tuple(rows))


def _twice(submissions: Sequence[Submission]) -> list[str]:
    names = [each.student for each in submissions]
    return [
        f"{name} handed in {names.count(name)} files: each is a row of its own."
        for name in sorted(set(names))
        if names.count(name) > 1
    ]


def _marked_again(answers: Iterable[AnswerRecord]) -> list[AnswerRecord]:
    """Answers are marked where they are graded; those about the student's own profile stay as they were marked."""
    quizzes: dict[int, dict[str, Any]] = {}
    marked = []
    for answer in answers:
        if answer.chapter not in quizzes:
            path = FOLDER / f"{answer.chapter:02}.yaml"
            quizzes[answer.chapter] = (
                {each.id: each for each in read_quiz(path).questions} if path.is_file() else {}
            )
        question = quizzes[answer.chapter].get(answer.question)
        is_right = answer.is_right
        if question is not None and not isinstance(question, Own):
            try:
                is_right = question.mark(json.loads(answer.answer)).is_right
            except (AccelError, ValueError, RecursionError):
                is_right = False
        marked.append(replace(answer, is_right=is_right))
    return marked


def _harmless(cell: str | float) -> str | float:
    return f"'{cell}" if isinstance(cell, str) and cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell
