"""What a student has done: answers to quizzes, kept next to the history of this machine."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from accel.history.history_file import path_or_why
from accel.history.record_store import RecordStore

NOT_KEPT = "Your answers are not kept"


@dataclass(frozen=True)
class AnswerRecord:
    """One answer. `version` is a hash of what was asked: an answer to another question of that name does not count."""

    chapter: int
    question: str
    version: str
    answer: str  # JSON
    is_right: bool
    time: str  # ISO, local time with its offset


class StudentRecord(RecordStore):
    """The file `history-labs.sqlite` next to `history.sqlite`; `ACCEL_HISTORY=off` keeps nothing.

    >>> StudentRecord().answers(5)
    []
    """

    def __init__(self) -> None:
        history, why = path_or_why(NOT_KEPT)
        path = None if history is None else history.with_name(f"{history.stem}-labs.sqlite")
        super().__init__(path, {AnswerRecord: "answers"}, called="The file with your answers")
        self.problem = why or ("" if path else f"{NOT_KEPT}: ACCEL_HISTORY is off.")

    def answers(self, chapter: int) -> list[AnswerRecord]:
        """All answers to a chapter's quiz, oldest first."""
        return [each for each in self.read(AnswerRecord) if each.chapter == chapter]


def now() -> str:
    """The time as records have it."""
    return datetime.now().astimezone().isoformat(timespec="seconds")
