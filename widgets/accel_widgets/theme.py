"""The style sheet and the script of a panel: what panels share, followed by the panel's own."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent


def themed(own: str) -> str:
    """Give the text of a panel's style sheet; anywidget loads one sheet a widget, so the colours travel with each.

    >>> themed("ladder_panel.css")
    """
    return scripts("theme.css", "hosts.css", own)


def scripts(*names: str) -> str:
    """Give the text of a panel's module, of several files; anywidget loads one module a widget.

    >>> scripts("seen.js", "core_map_panel.js")
    """
    return "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in names)
