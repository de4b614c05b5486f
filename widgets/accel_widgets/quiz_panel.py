"""A quiz to answer in the notebook: `%accel quiz`. What is right stays in Python; the page gets what became of an answer."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from accel.errors import AccelError
from accel.html_parts import block, heading, markdown, note
from accel.labs.course.lab_files import headings_of, notebook_of
from accel.labs.quiz.own_profile import NotInThisProfile
from accel.labs.quiz.questions import Marking
from accel.labs.quiz.quiz import POINTS
from accel.views.quiz_score import points
from accel_widgets.static_panel import SavedPanel
from accel_widgets.theme import scripts, themed

if TYPE_CHECKING:
    from accel.labs.quiz.questions import Remark
    from accel.labs.quiz.quiz import Quiz, Score

MARKS = {True: "✓", False: "✗", None: "·"}
WORDS = {True: "right", False: "wrong", None: "not asked for"}


class QuizPanel(SavedPanel, anywidget.AnyWidget):
    """Shows the questions of a quiz and marks what is answered.

    >>> QuizPanel(open_quiz(5, measured=lambda: None))
    """

    _esm = scripts("elements.js", "quiz_panel.js")
    _css = themed("quiz_panel.css")

    title = traitlets.Unicode().tag(sync=True)
    points = traitlets.Unicode().tag(sync=True)
    questions = traitlets.List(traitlets.Dict()).tag(sync=True)
    outcomes = traitlets.Dict().tag(sync=True)

    def __init__(self, quiz: Quiz) -> None:
        super().__init__()
        self.quiz = quiz
        self._headings = _headings(quiz.file.chapter)
        self.title = f"Quiz {quiz.file.chapter}: {quiz.file.title}"
        self.questions = [self._shown(name) for name in quiz.names]
        self._refused = 0
        self.outcomes = {name: self._before(name) for name in quiz.names if self._was_answered(name)}
        self.points = points(quiz.score())
        self.on_msg(self._answered)

    def score(self) -> Score:
        """The points so far.

        Examples:
            >>> print(accel.quiz(5).score())
        """
        return self.quiz.score()

    def _was_answered(self, name: str) -> bool:
        shown = next(each for each in self.questions if each["id"] == name)
        return not shown["missing"] and self.quiz.standing(name).answers > 0

    def _before(self, name: str) -> dict[str, Any]:
        """What became of the answers that were given in another panel."""
        is_over = self.quiz.standing(name).is_over
        return self._outcome(name, self.quiz.explained(name) if is_over else Marking(False))

    def _shown(self, name: str) -> dict[str, Any]:
        """A question as the page gets it: Markdown as HTML, without the answer."""
        try:
            question = self.quiz.question(name)
        except NotInThisProfile as error:
            return {"id": name, "kind": "own", "lesson": "", "heading": "", "ask": "", "missing": str(error)}
        asked = question.asked()
        heading = _plain(self._headings.get(question.lesson, ""))
        return asked | {
            "lesson": heading or asked["lesson"],
            "heading": heading.replace(" ", "-"),
            "ask": markdown(asked["ask"]),
            "choices": [_inline(text) for text in asked["choices"]],
            "plain": [_plain(text) for text in asked["choices"]],
            "lefts": [_inline(text) for text in asked["lefts"]],
            "missing": "",
        }

    def _answered(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        """The page asks to mark an answer."""
        name = str(message["question"])
        try:
            outcome = self._outcome(name, self.quiz.answer(name, message["given"]))
        except AccelError as error:
            self._refused += 1  # the same words again are read out again
            outcome = {"verdict": "Not counted:", "is_right": False, "is_over": False, "left": "", "remarks": [],
                       "refused": self._refused, "hint": _inline(f"{error.because}. {error.do}")}  # fmt: skip
        self.outcomes = {**self.outcomes, name: outcome}
        self.points = points(self.quiz.score())

    def _outcome(self, name: str, marking: Marking) -> dict[str, Any]:
        standing = self.quiz.standing(name)
        return {
            "verdict": _verdict(standing.is_right, standing.is_over, standing.points),
            "is_right": standing.is_right,
            "is_over": standing.is_over,
            "hint": _inline(marking.hint),
            "left": ""
            if standing.is_over
            else f"You can answer again, for {POINTS[standing.answers]:g} points.",
            "remarks": [_shown_remark(each) for each in marking.remarks],
        }

    def _stand_in(self) -> dict[str, str]:
        """The questions alone: answers and explanations need a kernel."""
        asks = [each["ask"] for each in self.questions if each["ask"]]
        text = f"{self.title}\n{self.points}\nRun this cell in a notebook to answer."
        return {"text/plain": text, "text/html": block(heading(self.title), *asks, note(self.points))}


def _headings(chapter: int) -> dict[str, str]:
    """The headings of the chapter's notebook; none where there is no notebook, as for a quiz of one's own."""
    try:
        return headings_of(notebook_of(chapter))
    except AccelError:
        return {}


def _verdict(is_right: bool, is_over: bool, points: float) -> str:
    if is_right:
        return f"Right: {points:g} of 1 point."
    return "That was the last answer. Every option explained:" if is_over else "Not yet."


def _shown_remark(remark: Remark) -> dict[str, Any]:
    return {
        "text": _inline(remark.text), "why": _inline(remark.why), "mark": MARKS[remark.is_right],
        "word": WORDS[remark.is_right], "is_right": remark.is_right,
    }  # fmt: skip


def _inline(text: str) -> str:
    """Markdown of one paragraph without its frame; several keep theirs."""
    html = markdown(text).strip()
    alone = re.fullmatch(r"<p>((?:(?!<p>).)*)</p>", html, re.DOTALL)
    return alone[1] if alone else html


def _plain(text: str) -> str:
    """What a list and a screen reader can show: no signs of Markdown."""
    return str(markdown(text).striptags())
