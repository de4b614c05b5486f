"""An exercise checked: the work is measured, and a pass is kept with what was seen."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from inspect import signature
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.labs.course.chapter import ExerciseForm, version_of
from accel.labs.exercises import check_named
from accel.labs.exercises.seen import Figure, Seen
from accel.labs.student_record import NBGRADER, ExerciseRecord, now
from accel.shown import Shown

if TYPE_CHECKING:
    from accel.labs.student_record import StudentRecord


@dataclass(frozen=True)
class Graded(Shown):
    """What a check saw, what was asked, and a hint where that is not enough.

    >>> lab.check("feed-the-step", my_loader).passed
    False
    """

    exercise: str
    passed: bool
    points: float
    most: float
    saw: str
    asked: str
    hint: str
    figures: dict[str, Figure]
    problem: str = ""  # why a pass could not be kept

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def grade(chapter: int, exercise: ExerciseForm, work: tuple[Any, ...], record: StudentRecord) -> Graded:
    """Check the work and keep the outcome; raises AccelError for work that cannot be looked at.

    While nbgrader grades, work that does not pass raises: nbgrader gives no points to a cell that raises.
    """
    check = check_named(exercise.check)
    try:
        signature(check).bind(*work, **exercise.needs)
    except TypeError as error:
        raise AccelError(
            f"The exercise {exercise.id}",
            because=str(error),
            do="Pass your work as the notebook's check does.",
        ) from None
    try:
        seen = check(*work, **exercise.needs)
    except AccelError:
        raise
    except Exception as error:  # the student's work raised it, in the check's hands
        raise AccelError(
            f"The exercise {exercise.id}", because=f"your work raised {type(error).__name__}: {error}",
            do="Run it by itself, as the exercise describes, then check again.",
        ) from error  # fmt: skip
    graded = Graded(
        exercise.id, seen.passed, exercise.points if seen.passed else 0.0, exercise.points, seen.saw, seen.asked,
        "" if seen.passed else seen.hint or exercise.hint, dict(seen.figures),
    )  # fmt: skip
    if os.environ.get(NBGRADER):
        if not seen.passed:
            raise AccelError(
                f"The exercise {exercise.id}", because=f"{seen.saw} Asked: {seen.asked}", do=graded.hint
            )
        return graded
    is_kept = record.add([_record(chapter, exercise, seen)])
    return graded if is_kept else replace(graded, problem=record.problem)


def _record(chapter: int, exercise: ExerciseForm, seen: Seen) -> ExerciseRecord:
    from accel.machine.reading import read_machine

    figures = json.dumps({"saw": seen.saw, "asked": seen.asked, **seen.figures}, default=str)
    return ExerciseRecord(
        chapter, exercise.id, version_of(exercise), seen.passed, figures, read_machine().line, now()
    )  # fmt: skip
