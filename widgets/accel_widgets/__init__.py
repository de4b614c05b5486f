"""Panels of the workbench: one .py (traits, what a click calls), one .js (draws), one .css (looks) each."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from accel.workbench import Workbench
    from accel_widgets.workbench_panel import WorkbenchPanel

__all__ = ["WorkbenchPanel", "panel_of"]

_panel: WorkbenchPanel | None = None


def panel_of(
    workbench: Workbench, on_over: Callable[[str, object, float], object] = lambda *_: None
) -> WorkbenchPanel:
    """The panel of a workbench: always the same one, however often it is shown, until it is closed.

    >>> panel_of(workbench)
    """
    from accel_widgets.workbench_panel import WorkbenchPanel

    global _panel
    if _panel is not None and _panel.workbench is not workbench and _panel.comm is not None:
        _panel.close()  # of another notebook's names, or of before a reload
    if _panel is None or _panel.workbench is not workbench or _panel.comm is None:
        _panel = WorkbenchPanel(workbench, on_over=on_over)
    return _panel


def __getattr__(name: str) -> Any:
    if name == "WorkbenchPanel":
        from accel_widgets.workbench_panel import WorkbenchPanel

        return WorkbenchPanel
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
