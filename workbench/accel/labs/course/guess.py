"""Predict first: a number that the student commits to, what was measured then, and what the course measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError
from accel.labs.course.chapter import GuessForm, version_of
from accel.labs.student_record import GuessRecord, now
from accel.labs.typed_number import number_in
from accel.shown import Shown, live_panel

if TYPE_CHECKING:
    from accel.labs.student_record import StudentRecord

CLOSE = 0.2  # of what was measured: a guess within it shows that the cause was seen


def is_close(guess: float, measured: float) -> bool:
    """Whether a guess lies within 20 % of what was measured.

    >>> is_close(35, 41), is_close(80, 41)
    (True, False)
    """
    return math.isfinite(measured) and abs(guess - measured) <= CLOSE * abs(measured)


@dataclass(frozen=True)
class GuessOutcome(Shown):
    """A guess (NaN: none was made) and what was measured, with the course's figure where it has one."""

    ask: str
    unit: str
    guess: float
    measured: float
    course: float | None = None
    conditions: str = ""

    @property
    def is_close(self) -> bool:
        """Whether the guess lies within 20 % of what was measured."""
        return is_close(self.guess, self.measured)

    @property
    def verdict(self) -> str:
        """The comparison in a sentence."""
        if math.isnan(self.guess):
            return "You made no guess: the next one is yours."
        if not math.isfinite(self.measured):
            return "Nothing was measured here, so your guess stays open."
        if self.is_close:
            return "Your guess was close."
        return f"Your guess was too {'high' if self.guess > self.measured else 'low'}: what did you expect to cost more or less?"


class Guess:
    """One number to commit to, as `lab.guess(name)` shows it.

    >>> guess = Guess(5, named(chapter.guesses, "waiting-share", "guess"), StudentRecord())
    >>> guess.give("35"); guess.given
    35.0
    """

    def __init__(self, chapter: int, form: GuessForm, record: StudentRecord) -> None:
        self.chapter, self.form, self.record = chapter, form, record
        self._version = version_of(form)
        self._unsaved: GuessRecord | None = None

    def panel(self) -> Any:
        """The field to type it into."""
        return live_panel(self)

    def give(self, text: str) -> float:
        """Take the number that was typed; raises AccelError for what is none."""
        number = number_in(text.strip().removesuffix(self.form.unit or "%").strip())
        if number is None:
            raise AccelError(
                "Your guess",
                because=f"{text!r} is no number",
                do="Write 1250 or 0.35, with a point before decimals.",
            )
        self._keep(number, math.nan)
        return number

    def outcome(self, measured: float) -> GuessOutcome:
        """What was measured next to the guess; it is kept with it, and a guess after it no longer counts as one before."""
        measured = float(measured)
        before = self.given
        self._keep(before, measured)
        form = self.form
        return GuessOutcome(form.ask, form.unit, before, measured, form.course, form.conditions)

    @property
    def given(self) -> float:
        """The last number given, NaN where there is none."""
        found = self._last()
        return found.guess if found is not None else math.nan

    @property
    def measured(self) -> float:
        """What was measured last, NaN where nothing was."""
        found = self._last()
        return found.measured if found is not None else math.nan

    def _last(self) -> GuessRecord | None:
        kept = [each for each in self.record.guesses(self.chapter) if each.name == self.form.id]
        return next((each for each in reversed(kept) if each.version == self._version), self._unsaved)

    def _keep(self, guess: float, measured: float) -> None:
        self._unsaved = GuessRecord(self.chapter, self.form.id, self._version, now(), guess, measured)
        self.record.add([self._unsaved])
