"""The bar on top of the workbench: the plan, what can be done with it, what goes on, what is kept; and the tabs below it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import anywidget
import traitlets

from accel.measuring.progress import Beat
from accel_widgets.theme import scripts, themed

INTERRUPT = "Interrupt stops it."
HEARD_S = 8.0  # a page repeats its word each 3 s
TABS = {"profile": "Profile", "speed_up": "Speed up", "machine": "Machine"}


class BarPanel(anywidget.AnyWidget):
    """Draws the bar; a click calls what it was given for it.

    >>> bar = BarPanel({"try": try_, "try_each": try_each, "tune": tune, "stop": stop, "undo": undo}, on_copy=copy, on_seen=print)
    >>> bar.show_beat(trial.beat)        # the page counts on by itself until the next one
    >>> bar.copied("print('plain PyTorch')", to)     # which view asked, and when, as `on_copy` was given it
    """

    _esm = scripts("elements.js", "seen.js", "bar_panel.js")
    _css = themed("bar_panel.css")

    headline = traitlets.Unicode().tag(sync=True)  # the step time
    plan = traitlets.Unicode().tag(sync=True)
    hint = traitlets.Unicode().tag(sync=True)  # why nothing can be tried, or what to do
    is_problem = traitlets.Bool().tag(sync=True)
    can = traitlets.List(traitlets.Unicode()).tag(sync=True)  # of what a click calls
    beat = traitlets.Dict().tag(sync=True)
    live = traitlets.Unicode().tag(sync=True)  # the kept plan
    tabs = traitlets.Dict(TABS).tag(sync=True)
    tab = traitlets.Unicode("profile").tag(sync=True)

    def __init__(
        self, calls: Mapping[str, Callable[[], object]], *, on_copy: Callable[[object], object],
        on_seen: Callable[[object], object],
    ) -> None:  # fmt: skip
        super().__init__()
        self._calls, self._on_copy, self._on_seen = dict(calls), on_copy, on_seen
        self._turned_to = self.tab
        self._heard_s = -math.inf  # when a page last said something
        self.on_msg(self._answer)

    def show_beat(self, beat: Beat | None, *, interrupt: str = INTERRUPT) -> None:
        """What goes on now; None: nothing. Where no click is heard, it says what `interrupt` does.

        While a cell runs, some kernels and pages pass nothing on: the page's word since it began, and just now, proves these do.
        """
        self.beat = {} if beat is None else {
            "called": beat.called, "phase": beat.phase, "phase_s": beat.phase_s, "detail": beat.detail,
            "seconds": beat.seconds, "at_most_s": beat.at_most_s, "is_strict": beat.is_strict,
            "can_stop": time.monotonic() - self._heard_s < min(beat.seconds, HEARD_S), "interrupt": interrupt,
        }  # fmt: skip

    def turn_to(self, tab: str) -> None:
        """Show this tab, unless the user has turned to another one since."""
        if self.tab == self._turned_to:
            self.tab = self._turned_to = tab

    def copied(self, text: str, to: object) -> None:
        """The text goes to the clipboard of the page that asked for it."""
        self.send({"copy": text, "to": to})

    def _answer(self, _widget: object, message: dict[str, Any], _buffers: object) -> None:
        """A click in the page, or its word that it shows the bar."""
        self._heard_s = time.monotonic()
        if "seen" in message:
            self._on_seen(message)
        elif message.get("do") == "copy":
            self._on_copy(message.get("to"))
        elif message.get("do") in self._calls:
            self._calls[message["do"]]()
        else:
            raise ValueError(f"the bar sent an unknown message: {message!r}")
