"""How far a student is: points of quizzes and exercises, and guesses, of one chapter or of the course."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel.labs.course.chapter import Chapter, chapter_numbers, chapter_of, version_of
from accel.labs.course.guess import is_close
from accel.labs.quiz.quiz import FOLDER, Quiz
from accel.labs.quiz.quiz_file import read_quiz
from accel.labs.student_record import ExerciseRecord, GuessRecord, StudentRecord
from accel.shown import Shown

if TYPE_CHECKING:
    import pandas

    from accel.labs.course.chapter import ExerciseForm


@dataclass(frozen=True)
class ExerciseStanding:
    """One exercise: whether it was passed, and what the last check saw ("" where it was never checked)."""

    name: str
    ask: str
    points: float
    most: float
    saw: str = ""


@dataclass(frozen=True)
class ChapterStanding(Shown):
    """One chapter: points by exercise, of the quiz, and guesses made (and close).

    >>> accel.progress(5).points
    4.5
    """

    chapter: int
    title: str
    about: str
    minutes: int
    exercises: tuple[ExerciseStanding, ...]
    quiz_points: float
    quiz_most: float
    quiz_open: int
    guesses: int
    guesses_made: int
    guesses_close: int
    last_time: str = ""  # of anything, ISO

    @property
    def points(self) -> float:
        """Of quiz and exercises."""
        return self.quiz_points + sum(each.points for each in self.exercises)

    @property
    def most(self) -> float:
        """What there is to reach."""
        return self.quiz_most + sum(each.most for each in self.exercises)

    @property
    def passed(self) -> int:
        """Exercises passed."""
        return sum(each.points > 0 for each in self.exercises)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self) | {"points": self.points, "most": self.most}


@dataclass(frozen=True)
class CourseStanding(Shown):
    """The labs of the course with what a student has done of each.

    >>> print(accel.labs())
    >>> accel.progress().to_dataframe()
    """

    chapters: tuple[ChapterStanding, ...]
    problem: str = ""  # why nothing is kept

    @property
    def points(self) -> float:
        """Of all chapters."""
        return sum(each.points for each in self.chapters)

    @property
    def most(self) -> float:
        """What there is to reach."""
        return sum(each.most for each in self.chapters)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "points": self.points, "most": self.most, "problem": self.problem,
            "chapters": [each.to_dict() for each in self.chapters],
        }  # fmt: skip

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a chapter."""
        import pandas

        rows = [
            each.to_dict() | {"exercises": len(each.exercises), "passed": each.passed}
            for each in self.chapters
        ]
        return pandas.DataFrame(rows)


def course_standing(work: StudentRecord | None = None) -> CourseStanding:
    """All chapters; of this machine's student, or of the work that was handed in."""
    done = StudentRecord() if work is None else work
    chapters = tuple(chapter_standing(number, done) for number in chapter_numbers())
    return CourseStanding(chapters, done.problem)


def chapter_standing(chapter: int, work: StudentRecord | None = None) -> ChapterStanding:
    """One chapter; raises UnknownName for one that the course has not."""
    done = StudentRecord() if work is None else work
    form = chapter_of(chapter)
    checks, guesses, answers = done.exercises(chapter), done.guesses(chapter), done.answers(chapter)
    quiz = Quiz(read_quiz(FOLDER / f"{chapter:02}.yaml"), done, lambda: None)
    score = quiz.score()
    made = _first_measured([each for each in guesses if each.version in _versions(form)])
    return ChapterStanding(
        chapter, form.title, form.about, form.minutes,
        tuple(_exercise_standing(each, checks) for each in form.exercises),
        score.points, score.most, score.open_questions,
        len(form.guesses), len(made), sum(is_close(each.guess, each.measured) for each in made),
        max([*(each.time for each in checks), *(each.time for each in answers), *(each.time for each in guesses)], default=""),
    )  # fmt: skip


def _first_measured(guesses: list[GuessRecord]) -> list[GuessRecord]:
    """Of each guess that was made, the record with its first measurement: one that knows the answer is no guess."""
    found: dict[str, GuessRecord] = {}
    for each in guesses:
        before = found.get(each.name)
        if before is None or math.isnan(before.measured):
            found[each.name] = each
    return [each for each in found.values() if not math.isnan(each.guess)]


def _versions(form: Chapter) -> set[str]:
    return {version_of(each) for each in form.guesses}


def _exercise_standing(form: ExerciseForm, checks: list[ExerciseRecord]) -> ExerciseStanding:
    """A pass stays, whatever later checks saw."""
    mine = [each for each in checks if each.name == form.id and each.version == version_of(form)]
    passed = [each for each in mine if each.passed]
    shown = (passed or mine)[-1:]
    saw = _saw(shown[0].figures) if shown else ""
    return ExerciseStanding(form.id, form.ask.strip(), form.points if passed else 0.0, form.points, saw)


def _saw(figures: str) -> str:
    """What a check saw; "" where what was handed in is no evidence of a check."""
    try:
        return str(json.loads(figures).get("saw", ""))
    except (ValueError, AttributeError, RecursionError):
        return ""
