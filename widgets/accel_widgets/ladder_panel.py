"""The trial ladder: every plan that was tried, filling live, with Stop and Keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from accel_widgets.theme import scripts, themed

NOTHING_TRIED = "Nothing tried yet. Switch accelerations on above and press Try, or press Tune."


class LadderPanel(anywidget.AnyWidget):
    """Draws trials, newest first, each with its rows (`ladder_row`); Stop and Keep call what it was given.

    >>> LadderPanel(on_stop=trial.stop, on_keep=workbench.keep)
    """

    _esm = scripts("elements.js", "ladder_panel.js")
    _css = themed("ladder_panel.css")

    trials = traitlets.List(traitlets.Dict()).tag(sync=True)
    is_running = traitlets.Bool(False).tag(sync=True)
    empty_note = traitlets.Unicode(NOTHING_TRIED).tag(sync=True)

    def __init__(self, *, on_stop: Callable[[], object], on_keep: Callable[[str], object]) -> None:
        super().__init__()
        self._on_stop, self._on_keep = on_stop, on_keep
        self.on_msg(self._answer)

    def _answer(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        """A click in the page: what it asked for."""
        if message.get("do") == "stop":
            self._on_stop()
        elif message.get("do") == "keep":
            self._on_keep(str(message["plan"]))
        else:
            raise ValueError(f"the ladder sent a message that nobody understands: {message!r}")
