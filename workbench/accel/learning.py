"""The course as functions: its labs, what one of them needs in a notebook, its quizzes, and how far a student is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel.labs.course.fetching import Fetched
    from accel.labs.course.lab import Lab
    from accel.labs.course.lab_files import StartedLab
    from accel.labs.course.lab_lint import Lint
    from accel.labs.course.standing import ChapterStanding, CourseStanding
    from accel.labs.course.submission import Grades
    from accel_widgets.quiz_panel import QuizPanel


def labs(
    does: str | int | None = None, name: str | int | None = None, *, csv: bool = False
) -> CourseStanding | StartedLab | Grades | Lint | Fetched:
    """List the labs of the course with your progress, start one, hand in and grade, write your own.

    Args:
        does: A chapter to copy into this folder, or "start", "export" (your grades, to hand in), "grade" (those of a class),
            "new" (the skeleton of a lab), "check" (what is wrong with a lab or quiz), "data" (fetch a data set). None: the list.
        name: The chapter, folder, file or data set that it is about.
        csv: Of export and grade: print a table in nbgrader's columns.

    Returns:
        A row for each lab; or where the copy is, the grades, the problems, the data set.

    Raises:
        UnknownName: There is no such chapter, data set or word.
        AccelError: A file is missing, or cannot be written or read.

    Examples:
        >>> print(accel.labs())
        >>> accel.labs(3)
        >>> print(accel.labs("grade", "handed_in", csv=True))
    """
    from accel.labs.course.asked import course

    return course(None if does is None else str(does), None if name is None else str(name), csv=csv)


def lab(chapter: int | str | Path, *, scale: str | None = None) -> Lab:
    """Open a lab in its notebook: its guesses, tables, diagrams, exercises and recorded results.

    Args:
        chapter: The chapter, 1 to 11, or the YAML file of a lab of your own.
        scale: "quick" (for tests), "normal", or "full", which is the course's own. None: as ACCEL_LABS says, or normal.

    Returns:
        The lab, which the cells of its notebook call.

    Raises:
        UnknownName: The course has no such chapter, or there is no such scale.
        AccelError: The file is no lab; it says what is wrong.

    Examples:
        >>> lab = accel.lab(5)
        >>> lab.guess("waiting-share")
        >>> lab.table("pipeline")
    """
    from accel.labs.course.lab import open_lab

    return open_lab(chapter, scale)


def quiz(chapter: int | str | Path = 1) -> QuizPanel:
    """Answer the quiz of a chapter of the course, and see why each option is right or wrong.

    A question has three answers: the first, if right, gives a point, the second a half, the third a quarter. Answers are kept
    on this machine, next to the history.

    Args:
        chapter: The chapter, 1 to 11, or the YAML file of a quiz of your own.

    Returns:
        The questions as a widget, which the last line of a cell shows. `.score()` gives the points.

    Raises:
        UnknownName: The course has no such chapter.
        AccelError: The file is no quiz; it says what is wrong.

    Examples:
        >>> accel.quiz(5)
        >>> print(accel.quiz(5).score())
    """
    from accel.current import current_workbench
    from accel.labs.quiz.own_profile import last_measured
    from accel.labs.quiz.quiz import open_quiz

    panel: QuizPanel = open_quiz(chapter, measured=last_measured(current_workbench)).panel()
    return panel


def progress(chapter: int | None = None) -> CourseStanding | ChapterStanding:
    """Say how far you are in the course, or in one chapter.

    Args:
        chapter: The chapter, 1 to 11. None: all.

    Returns:
        Points of quizzes and exercises, guesses made, and what is open.

    Raises:
        UnknownName: The course has no such chapter.

    Examples:
        >>> print(accel.progress())
        >>> print(accel.progress(5))
    """
    from accel.labs.course.standing import chapter_standing, course_standing

    return course_standing() if chapter is None else chapter_standing(chapter)
