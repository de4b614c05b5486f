"""A chapter's quiz as one student has it: the questions, what became of the answers, and the score."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec

from accel.errors import UnknownName
from accel.labs.quiz.own_profile import Measured, NotInThisProfile, made_from
from accel.labs.quiz.questions import Marking, Own, Question
from accel.labs.quiz.quiz_file import QuizFile, read_quiz
from accel.labs.student_record import AnswerRecord, StudentRecord, now
from accel.shown import Shown, live_panel

FOLDER = Path(__file__).parents[1] / "quizzes"
POINTS = (1.0, 0.5, 0.25)  # for the first, second and third answer
NOT_ASKED = ("why", "otherwise", "near", "lesson")


@dataclass(frozen=True)
class Standing:
    """How a student stands with one question: the answers given, the points won, and whether it is over."""

    answers: int = 0
    points: float = 0.0
    is_right: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it was answered rightly, or as often as it may be."""
        return self.is_right or self.answers >= len(POINTS)


@dataclass(frozen=True)
class Score(Shown):
    """The points of one quiz. `open_questions` can still be answered.

    Examples:
        >>> print(accel.quiz(5).score())
        Quiz 5: 9.5 of 14 points (68 %), 3 questions open.
    """

    chapter: int
    title: str
    points: float
    most: float
    open_questions: int
    problem: str = ""

    @property
    def share(self) -> float:
        """The part of all points, 0 to 1."""
        return self.points / self.most if self.most else 0.0

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self) | {"share": self.share}


class Quiz:
    """The questions of a chapter, with one student's answers.

    >>> quiz = open_quiz(5, measured=lambda: None)
    >>> quiz.answer("idle-device", 2)       # the third option, as shown
    Marking(is_right=True, ...)

    Args:
        file: The questions.
        record: Where answers are kept.
        measured: Gives the student's last profile with its workload; None where there is none yet.
    """

    def __init__(
        self, file: QuizFile, record: StudentRecord, measured: Callable[[], Measured | None]
    ) -> None:
        self.file, self.record, self._measured = file, record, measured
        self._given = record.answers(file.chapter)
        self._unsaved: list[AnswerRecord] = []
        self._made: dict[str, Question] = {}  # about the profile there was when they were first shown

    def panel(self) -> Any:
        """The questions as a widget."""
        return live_panel(self)

    @property
    def names(self) -> list[str]:
        """The questions by name, in their order."""
        return [each.id for each in self.file.questions]

    def question(self, name: str) -> Question:
        """The question of that name, with the student's own figures; raises UnknownName and NotInThisProfile."""
        found = self._named(name)
        if not isinstance(found, Own):
            return found
        if name in self._made:
            return self._made[name]
        measured = self._measured()
        if measured is None:
            raise NotInThisProfile(
                "This question is about your own training. Profile a cell first (%%accel profile), then run this cell again."
            )
        return self._made.setdefault(name, made_from(found, measured))

    def answer(self, name: str, given: Any) -> Marking:
        """Mark an answer and keep it; after the last one, or a right one, the marking explains every option.

        Raises AccelError when it is no answer; it does not count then. A question that is over is not answered again, and the
        same answer twice in a row counts once.
        """
        question = self.question(name)
        if self.standing(name).is_over:
            return self.explained(name)
        marking, answer = question.mark(given), json.dumps(given, default=str)
        before = self._answers_to(name)
        if not before or before[-1].answer != answer:
            self._keep(
                AnswerRecord(self.file.chapter, name, self._version(name), answer, marking.is_right, now())
            )
        if not self.standing(name).is_over:
            return marking
        return msgspec.structs.replace(self.explained(name), is_right=marking.is_right)

    def explained(self, name: str) -> Marking:
        """The right answer with every explanation."""
        return self.question(name).solution()

    def standing(self, name: str) -> Standing:
        """How the student stands with a question."""
        return _standing(self._answers_to(name))

    def score(self) -> Score:
        """The points so far."""
        standings = [self.standing(name) for name in self.names]
        return Score(
            self.file.chapter, self.file.title, sum(each.points for each in standings), float(len(standings)),
            sum(not each.is_over for each in standings), self.record.problem,
        )  # fmt: skip

    def _answers_to(self, name: str) -> list[AnswerRecord]:
        version = self._version(name)
        return [each for each in self._given if each.question == name and each.version == version]

    def _keep(self, answer: AnswerRecord) -> None:
        """Write it, with those that could not be written before, and read what other panels of this quiz wrote."""
        self._unsaved.append(answer)
        if self.record.add(self._unsaved):
            if len(self._unsaved) > 1:
                self.record.problem = ""  # what could not be written before is written now
            self._unsaved = []
        self._given = self.record.answers(self.file.chapter) + self._unsaved

    def _named(self, name: str) -> Question | Own:
        found = next((each for each in self.file.questions if each.id == name), None)
        if found is None:
            raise UnknownName("question", name, self.names)
        return found

    def _version(self, name: str) -> str:
        """Of what is asked and what is right: an explanation may be corrected without taking points away."""
        asked = json.dumps(_without_reasons(msgspec.to_builtins(self._named(name))), sort_keys=True)
        return hashlib.sha256(asked.encode()).hexdigest()[:12]


def _without_reasons(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_reasons(each) for name, each in value.items() if each and name not in NOT_ASKED
        }
    return [_without_reasons(each) for each in value] if isinstance(value, (list, tuple)) else value


def _standing(given: Sequence[AnswerRecord]) -> Standing:
    right = next((at for at, each in enumerate(given) if each.is_right), None)
    if right is None or right >= len(POINTS):
        return Standing(min(len(given), len(POINTS)))
    return Standing(right + 1, POINTS[right], True)


def open_quiz(chapter: int | str | Path, *, measured: Callable[[], Measured | None]) -> Quiz:
    """The quiz of a chapter of the course, or in a file of one's own; raises UnknownName for a chapter without one."""
    path = FOLDER / f"{chapter:02}.yaml" if isinstance(chapter, int) else Path(chapter)
    if isinstance(chapter, int) and not path.is_file():
        raise UnknownName("quiz", str(chapter), [str(int(each.stem)) for each in FOLDER.glob("*.yaml")])
    return Quiz(read_quiz(path), StudentRecord(), measured)
