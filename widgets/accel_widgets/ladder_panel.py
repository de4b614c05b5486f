"""The trial ladder: every plan that was tried, filling live, with Keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anywidget
import traitlets

from accel_widgets.theme import scripts, themed

NOTHING_TRIED = "Nothing tried yet."


class LadderPanel(anywidget.AnyWidget):
    """Draws trials, newest first, each with its rows (`ladder_row`); Keep calls what it was given.

    >>> LadderPanel(on_keep=workbench.keep, on_copy=print, compare=lambda first, second, names: "")

    Names, pins and what was taken off the list are of the page: the history has every trial. Two that are pinned are compared.
    """

    _esm = scripts("elements.js", "picture.js", "ladder_picture.js", "ladder_panel.js")
    _css = themed("ladder_panel.css")

    trials = traitlets.List(traitlets.Dict()).tag(sync=True)
    names = traitlets.Dict().tag(sync=True)  # that the user gave, by the id of a trial
    pinned = traitlets.List(traitlets.Unicode()).tag(sync=True)
    removed = traitlets.List(traitlets.Unicode()).tag(sync=True)
    compared = traitlets.Unicode().tag(sync=True)  # the two that are pinned, in a line
    empty_note = traitlets.Unicode(NOTHING_TRIED).tag(sync=True)

    def __init__(
        self, *, on_keep: Callable[[str], object], on_copy: Callable[[str, str, object], object],
        compare: Callable[[str, str, tuple[str, str]], str],
    ) -> None:  # fmt: skip
        super().__init__()
        self._on_keep, self._on_copy, self._compare = on_keep, on_copy, compare
        self.on_msg(self._answer)
        self.observe(self._draw_compared, ["trials", "names", "pinned", "removed"])

    def _draw_compared(self, _change: object) -> None:
        """The newer of two pinned trials against the older; nothing while one of them runs, or where fewer are pinned."""
        pinned = [
            each for each in self.trials if each["id"] in self.pinned and each["id"] not in self.removed
        ]
        if len(pinned) != 2 or any(each["is_running"] for each in pinned):
            self.compared = "Pin two trials to compare them." if len(pinned) > 2 else ""
            return
        (first, name), (second, other) = (
            (each["id"], self.names.get(each["id"]) or each["title"]) for each in pinned
        )
        self.compared = self._compare(first, second, (name, other))

    def _answer(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        """A click in the page: what it asked for."""
        if message.get("do") == "keep":
            self._on_keep(str(message["plan"]))
        elif message.get("do") == "copy":
            self._on_copy(str(message["trial"]), str(message["form"]), message.get("to"))
        else:
            raise ValueError(f"the ladder sent a message that nobody understands: {message!r}")
