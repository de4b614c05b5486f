"""A field for a number to commit to before it is measured, as `lab.guess(name)` shows it: a question of a quiz without marks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from accel.errors import AccelError
from accel.html_parts import block, heading, markdown, note, text
from accel.labs.course.chapter import version_of
from accel.views.labs.guess_outcome import in_unit
from accel_widgets.static_panel import SavedPanel
from accel_widgets.theme import scripts, themed

if TYPE_CHECKING:
    from accel.labs.course.guess import Guess

LEGEND = "Predict first"
TO_GUESS = "Run this cell in a notebook to guess."


class GuessPanel(SavedPanel, anywidget.AnyWidget):
    """Asks for one number, keeps it, and shows it again next to what was measured.

    >>> GuessPanel(Guess(5, form, StudentRecord()))
    """

    _esm = scripts("elements.js", "quiz_panel.js")
    _css = themed("quiz_panel.css")

    title = traitlets.Unicode().tag(sync=True)
    points = traitlets.Unicode().tag(sync=True)  # why guesses are not kept, where they are not
    questions = traitlets.List(traitlets.Dict()).tag(sync=True)
    outcomes = traitlets.Dict().tag(sync=True)

    def __init__(self, guess: Guess) -> None:
        super().__init__()
        self.guess = guess
        self._refused = 0
        self._measured = math.nan  # of the last guess but one, where nothing is kept
        form, given = guess.form, guess.given
        self.questions = [
            {
                "id": form.id, "kind": "numeric", "lesson": "", "heading": "", "ask": str(markdown(form.ask)),
                "choices": [], "plain": [], "lefts": [], "unit": form.unit, "missing": "", "legend": LEGEND,
                "button": "Guess", "field": "Your guess", "typed": "" if math.isnan(given) else f"{given:.12g}",
            }
        ]  # fmt: skip
        self._draw()
        self.on_msg(self._guessed)

    def _draw(self) -> None:
        self.points = self.guess.record.problem
        said = self._said()
        self.outcomes = {} if said is None else {self.guess.form.id: _outcome(*said)}

    def _guessed(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        """The page gives what was typed."""
        measured = self.guess.measured
        try:
            self.guess.give(str(message["given"]))
        except AccelError as error:
            self._refused += 1  # the same words again are read out again
            refused = _outcome("Not counted:", f"{error.because}. {error.do}") | {
                "is_right": False,
                "refused": self._refused,
            }
            self.outcomes = {self.guess.form.id: refused}
            return
        self._measured = self._measured if math.isnan(measured) else measured
        self._draw()

    def _said(self) -> tuple[str, str] | None:
        """What there is to say about the last guess, and what comes next; None before there is one."""
        guess, unit = self.guess, self.guess.form.unit
        measured = guess.measured
        if math.isnan(guess.given):
            if math.isnan(measured):
                return None
            return f"Measured: {in_unit(measured, unit)}.", "A guess now counts as one after the measurement."
        yours = in_unit(guess.given, unit)
        if not math.isnan(measured):
            both = f"Your guess: {yours}. Measured: {in_unit(measured, unit)}."
            return both, "Another guess counts as one after the measurement."
        before = self._measured_before()
        if before is None:
            return f"Your guess: {yours}.", "Now measure."
        return f"Your guess after a measurement of {in_unit(before, unit)}: {yours}.", "Now measure again."

    def _measured_before(self) -> float | None:
        """What was measured when an earlier guess was there."""
        guess = self.guess
        kept = [each for each in guess.record.guesses(guess.chapter) if each.name == guess.form.id]
        own = [each.measured for each in kept if each.version == version_of(guess.form)] or [self._measured]
        return next((value for value in reversed(own) if not math.isnan(value)), None)

    def _stand_in(self) -> dict[str, str]:
        """The question, and the guess that was made: another one needs a kernel."""
        form, said = self.guess.form, self._said()
        line = " ".join(said) if said else ""
        plain = "\n".join(filter(None, [LEGEND, form.ask, line, TO_GUESS]))
        parts = [heading(LEGEND), markdown(form.ask), *([line] if line else []), note(TO_GUESS)]
        return {"text/plain": plain, "text/html": block(*parts)}


def _outcome(verdict: str, hint: str) -> dict[str, Any]:
    """What the page of a quiz shows of an answer, neither right nor wrong."""
    return {
        "verdict": verdict, "is_right": None, "is_over": False, "hint": str(text(hint)), "left": "", "remarks": [],
    }  # fmt: skip
