"""The style sheet of a panel: the shared colours of theme.css followed by the panel's own rules."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def themed(own: str) -> str:
    """Give the text of a panel's style sheet; anywidget loads one sheet a widget, so the colours travel with each.

    >>> themed("ladder_panel.css")
    """
    return (FOLDER / "theme.css").read_text(encoding="utf-8") + (FOLDER / own).read_text(encoding="utf-8")
