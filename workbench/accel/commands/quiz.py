"""`%accel quiz`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    return place.open_quiz(options.chapter)


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
