"""What a student has done: guesses, checked exercises and answers to quizzes, kept next to the history of this machine."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from datetime import datetime

from accel.history.history_file import path_or_why
from accel.history.record_store import RecordStore, table_for

NOT_KEPT = "Your answers are not kept"
# nbgrader sets it while it grades: a cell gives its points if it raises nothing, and a student's work is not the teacher's.
NBGRADER = "NBGRADER_EXECUTION"


@dataclass(frozen=True)
class AnswerRecord:
    """One answer. `version` is a hash of what was asked: an answer to another question of that name does not count."""

    chapter: int
    question: str
    version: str
    answer: str  # JSON
    is_right: bool
    time: str  # ISO, local time with its offset


@dataclass(frozen=True)
class GuessRecord:
    """One prediction; NaN for a number that was not given, or not yet measured."""

    chapter: int
    name: str
    version: str
    time: str
    guess: float = math.nan
    measured: float = math.nan


@dataclass(frozen=True)
class ExerciseRecord:
    """One check of an exercise, passed or not, with what it saw as JSON."""

    chapter: int
    name: str
    version: str
    passed: bool
    figures: str
    machine: str
    time: str


TABLES: dict[type, str] = {AnswerRecord: "answers", GuessRecord: "guesses", ExerciseRecord: "exercises"}
UPGRADES = ((table_for(GuessRecord, "guesses"), table_for(ExerciseRecord, "exercises")),)


class StudentRecord(RecordStore):
    """The file `history-labs.sqlite` next to `history.sqlite`; with `ACCEL_HISTORY=off`, or while nbgrader grades, there is none.

    >>> StudentRecord().answers(5)
    []
    """

    def __init__(self) -> None:
        history, why = path_or_why(NOT_KEPT)
        off = "nbgrader grades" if os.environ.get(NBGRADER) else "ACCEL_HISTORY is off"
        path = (
            None
            if history is None or os.environ.get(NBGRADER)
            else history.with_name(f"{history.stem}-labs.sqlite")
        )
        super().__init__(path, TABLES, upgrades=UPGRADES, called="The file with your answers")
        self.problem = why or ("" if path else f"{NOT_KEPT}: {off}.")

    def answers(self, chapter: int) -> list[AnswerRecord]:
        """All answers to a chapter's quiz, oldest first."""
        return [each for each in self.read(AnswerRecord) if each.chapter == chapter]

    def guesses(self, chapter: int) -> list[GuessRecord]:
        """All guesses of a chapter, oldest first."""
        return [each for each in self.read(GuessRecord) if each.chapter == chapter]

    def exercises(self, chapter: int) -> list[ExerciseRecord]:
        """All checks of a chapter's exercises, oldest first."""
        return [each for each in self.read(ExerciseRecord) if each.chapter == chapter]


def now() -> str:
    """The time as records have it."""
    return datetime.now().astimezone().isoformat(timespec="seconds")
