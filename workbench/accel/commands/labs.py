"""`%accel labs`: the labs of the course, for students, teachers and authors."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from accel.commands.command import OUT, Argument, Command, switch

if TYPE_CHECKING:
    from accel.commands.place import Place


def _run(options: argparse.Namespace, place: Place) -> object:
    from accel.labs.course.asked import course
    from accel.labs.course.lab_files import StartedLab, open_in_jupyter
    from accel.labs.course.submission import Grades

    result = course(options.does, options.name, csv=options.csv)
    if isinstance(result, Grades) and result.is_data:
        for problem in result.problems:  # not into the file that takes the rest
            print(problem, file=sys.stderr)
    if isinstance(result, StartedLab) and not place.has_workbench and sys.stdout.isatty():
        print(result, flush=True)
        open_in_jupyter(result.path)  # the terminal becomes JupyterLab; a notebook shows a link
    return result


def _check(options: argparse.Namespace, program: str) -> None:
    if options.does is not None:
        from accel.labs.course.asked import check_words

        check_words(options.does, options.name, program)


COMMAND = Command(
    "labs",
    "list the labs of the course with your progress, start one, hand in and grade, write your own",
    "%accel labs 3",
    _run,
    (
        Argument(
            "does",
            help="a chapter, or: start N; export (your grades, to hand in); grade FOLDER (of a class); new FILE; check FILE; "
            "data fetch (both data sets of the course), or data NAME",
            nargs="?",
            metavar="WHAT",
        ),
        Argument(
            "name", help="the chapter, folder, file or data set", nargs="?", metavar="NAME", completes="file"
        ),
        switch("--csv", "of export and grade: a table in nbgrader's columns"),
        OUT,
    ),
    check=_check,
    needs_notebook=False,
)
