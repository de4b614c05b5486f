"""What a student has done: answers to quizzes, kept beside the history of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from accel.history.history_file import history_path
from accel.history.record_store import RecordStore


@dataclass(frozen=True)
class AnswerRecord:
    """One answer. `version` is a hash of the question's text: an answer to another question of that name does not count."""

    chapter: int
    question: str
    version: str
    answer: str  # JSON
    is_right: bool
    time: str  # ISO, local time with its offset


class StudentRecord(RecordStore):
    """The file `labs.sqlite` next to the history; `ACCEL_HISTORY=off` keeps nothing.

    >>> StudentRecord().answers(5)
    []
    """

    def __init__(self) -> None:
        problem = ""
        try:
            history = history_path()
        except RuntimeError as error:  # this user has no home
            history, problem = None, f"Your answers are not kept: {error} ACCEL_HISTORY names a file."
        path = None if history is None else history.with_name("labs.sqlite")
        super().__init__(path, {AnswerRecord: "answers"}, called="The file with your answers")
        self.problem = problem or ("" if path else "Your answers are not kept: ACCEL_HISTORY is off.")

    def answers(self, chapter: int) -> list[AnswerRecord]:
        """All answers to a chapter's quiz, oldest first."""
        return [each for each in self.read(AnswerRecord) if each.chapter == chapter]


def now() -> str:
    """The time as records have it."""
    return datetime.now().astimezone().isoformat(timespec="seconds")
