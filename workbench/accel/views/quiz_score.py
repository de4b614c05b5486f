"""A quiz's score in one line, and where the answers could not be kept."""

from __future__ import annotations

from accel.html_parts import Markup, block, note
from accel.labs.quiz.quiz import Score
from accel.units import counted, percent


def text(score: Score) -> str:
    """For a terminal."""
    return f"Quiz {score.chapter}: {points(score)}"


def points(score: Score) -> str:
    """The same where the quiz is named already."""
    left = f", {counted(score.open_questions, 'question')} open" if score.open_questions else ""
    return f"{score.points:g} of {score.most:g} points ({percent(score.share, 0)}){left}. {score.problem}".strip()


def html(score: Score) -> Markup:
    """For a notebook."""
    return block(note(text(score)))
