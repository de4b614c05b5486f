"""The course as functions: its quizzes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accel_widgets.quiz_panel import QuizPanel


def quiz(chapter: int = 1) -> QuizPanel:
    """Answer the quiz of a chapter of the course, and see why each option is right or wrong.

    A question has three answers: the first, if right, gives a point, the second a half, the third a quarter. Answers are kept
    on this machine, next to the history.

    Args:
        chapter: The chapter, 1 to 11.

    Returns:
        The questions as a widget, which the last line of a cell shows. `.score()` gives the points.

    Raises:
        UnknownName: The course has no such chapter.

    Examples:
        >>> accel.quiz(5)
        >>> print(accel.quiz(5).score())
    """
    import accel_widgets
    from accel.current import current_workbench

    return accel_widgets.quiz_of(current_workbench(), chapter)
