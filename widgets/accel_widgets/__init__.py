"""Panels of the workbench: one .py (traits, what a click calls), one .js (draws), one .css (looks) each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.workbench import Workbench
    from accel_widgets.quiz_panel import QuizPanel
    from accel_widgets.workbench_panel import WorkbenchPanel

__all__ = ["WorkbenchPanel", "panel_of", "quiz_of"]

_panel: WorkbenchPanel | None = None


def panel_of(workbench: Workbench) -> WorkbenchPanel:
    """The panel of a workbench: always the same one, however often it is shown, until it is closed.

    >>> panel_of(workbench)
    """
    from accel_widgets.workbench_panel import WorkbenchPanel

    global _panel
    if _panel is None or _panel.workbench is not workbench or _panel.comm is None:
        _panel = WorkbenchPanel(workbench)
    return _panel


def quiz_of(workbench: Workbench, chapter: int) -> QuizPanel:
    """The quiz of a chapter, with questions about what was profiled last in this notebook.

    >>> quiz_of(workbench, 5)
    """
    from accel.labs.quiz.own_profile import Measured
    from accel.labs.quiz.quiz import open_quiz
    from accel_widgets.quiz_panel import QuizPanel

    def measured() -> Measured | None:
        profile, workload = workbench.profile_of_workload, workbench.workload
        return Measured(profile, workload) if profile is not None and workload is not None else None

    return QuizPanel(open_quiz(chapter, measured=measured))


def __getattr__(name: str) -> Any:
    if name == "WorkbenchPanel":
        from accel_widgets.workbench_panel import WorkbenchPanel

        return WorkbenchPanel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
