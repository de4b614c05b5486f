"""`%accel quiz`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.labs.quiz.own_profile import last_measured
    from accel.labs.quiz.quiz import open_quiz

    return open_quiz(options.chapter, measured=last_measured(lambda: place.workbench)).panel()


COMMAND = Command(
    "quiz",
    "answer the quiz of a chapter of the course",
    "%accel quiz 5",
    _run,
    (
        Argument("chapter", help="the chapter, 1 to 11 (default: 1)", type=int, nargs="?", default=1),
        OUT,
    ),
)
