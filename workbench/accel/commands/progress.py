"""`%accel progress`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.labs.course.standing import chapter_standing, course_standing

    return course_standing() if options.chapter is None else chapter_standing(options.chapter)


COMMAND = Command(
    "progress",
    "say how far you are in the course, or in one chapter",
    "%accel progress 5",
    _run,
    (Argument("chapter", help="the chapter, 1 to 11 (default: all)", type=int, nargs="?", default=None), OUT),
    needs_notebook=False,
)
