"""Lab: what a notebook of the course calls its guesses, tables, diagrams, exercises and recorded results by."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from accel.current import current_workbench
from accel.errors import UnknownName
from accel.labs.course.chapter import Chapter, chapter_of, named, read_chapter
from accel.labs.course.diagram import Diagram
from accel.labs.course.grading import Graded, grade
from accel.labs.course.guess import Guess, GuessOutcome
from accel.labs.course.recorded import Recorded, recorded
from accel.labs.course.reference_table import ReferenceTable, Value, with_yours
from accel.labs.quiz.own_profile import last_measured
from accel.labs.quiz.quiz import open_quiz
from accel.labs.student_record import StudentRecord
from accel.shown import Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

Scale = Literal["quick", "normal", "full"]
SCALES: tuple[Scale, ...] = ("quick", "normal", "full")
VARIABLE = "ACCEL_LABS"
Choice = TypeVar("Choice")


class Lab(Shown):
    """One chapter of the course in a notebook.

    Examples:
        >>> lab = accel.lab(5)
        >>> lab.guess("waiting-share")                  # a field for your number
        >>> lab.measured("waiting-share", 41.3)         # both, and the course's figure
        >>> lab.check("feed-the-step", my_loader)       # an exercise
    """

    def __init__(
        self, chapter: Chapter, record: StudentRecord, scale: Scale = "normal", folder: Path | None = None
    ) -> None:
        self.chapter, self.record, self.scale, self._folder = chapter, record, scale, folder
        self._guesses: dict[str, Guess] = {}

    def choose(self, *, quick: Choice, normal: Choice, full: Choice) -> Choice:
        """The value for how large experiments are here: `accel.lab(5, scale="full")` takes the course's own scale.

        >>> epochs = lab.choose(quick=1, normal=3, full=10)
        """
        return {"quick": quick, "normal": normal, "full": full}[self.scale]

    def guess(self, name: str) -> Any:
        """A field for your number, before the cell that measures runs."""
        return self._guess(name).panel()

    def measured(self, name: str, value: float) -> GuessOutcome:
        """What was measured next to your guess and the course's figure.

        Args:
            name: The guess.
            value: What you measured, in the unit that the guess asks for.
        """
        return self._guess(name).outcome(value)

    def _guess(self, name: str) -> Guess:
        """One a name: where nothing can be kept on disk, the cell that measures still knows it."""
        if name not in self._guesses:
            form = named(self.chapter.guesses, name, "guess")
            self._guesses[name] = Guess(self.chapter.chapter, form, self.record)
        return self._guesses[name]

    def table(
        self, name: str, yours: Mapping[str | float, Value | tuple[Value, ...]] | None = None
    ) -> ReferenceTable:
        """A table of the course, with your figures in the rows of these names.

        >>> lab.table("sparsity", {"10 %": (11.2, 0.91)})
        """
        return with_yours(named(self.chapter.tables, name, "table"), yours or {})

    def diagram(self, name: str) -> Diagram:
        """A drawing of the chapter."""
        return Diagram(named(self.chapter.diagrams, name, "diagram"))

    def recorded(self, name: str) -> Recorded:
        """A result of hardware that this machine may lack; it says on what it was recorded."""
        return recorded(named(self.chapter.recorded, name, "recorded result"), self._folder)

    def check(self, name: str, *work: Any) -> Graded:
        """Check an exercise by measuring; a pass is kept with what was seen.

        Args:
            name: The exercise.
            *work: What it asks for: a Profile, a Ladder, a model, a function …

        Raises:
            AccelError: The work is something else than the exercise asks for.
        """
        return grade(self.chapter.chapter, named(self.chapter.exercises, name, "exercise"), work, self.record)

    def quiz(self) -> Any:
        """The chapter's quiz, with questions about what you profiled last."""
        return open_quiz(self.chapter.chapter, measured=last_measured(current_workbench)).panel()


def scale_of(asked: str | None) -> Scale:
    """How large experiments are: as asked, or as ACCEL_LABS says, or "normal"; raises UnknownName."""
    name = asked or os.environ.get(VARIABLE, "") or "normal"
    for scale in SCALES:
        if scale == name:
            return scale
    raise UnknownName("scale", name, SCALES)


def open_lab(which: int | str | Path, scale: str | None = None) -> Lab:
    """A chapter by its number, or one of your own by its file.

    >>> open_lab(5).chapter.title
    'An efficient data pipeline'
    """
    if isinstance(which, int):
        return Lab(chapter_of(which), StudentRecord(), scale_of(scale))
    return Lab(read_chapter(Path(which)), StudentRecord(), scale_of(scale), Path(which).parent)
