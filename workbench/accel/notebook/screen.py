"""One place that is redrawn while something goes on: a display in a notebook, one line in a terminal."""

from __future__ import annotations

import contextvars
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from accel import options

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

SECONDS_BETWEEN_UPDATES = 0.25
SECONDS_OF_SILENCE = 1.0  # at most, in whatever can be overwritten
SECONDS_BETWEEN_LINES = 30.0  # in what cannot, such as a file
_CLEAR_TO_END = "\x1b[K"


class Drawing(Protocol):
    """What is drawn: a notebook takes its MIME bundle, a terminal its line."""

    @property
    def line(self) -> str: ...


class Screen:
    """Draws in place, and leaves what it ends with.

    >>> screen = Screen(shell)
    >>> with screen.beating(lambda: Progress("Packing the cell.")):   # each second, from a thread
    ...     pack()
    >>> while not trial.is_over:                                      # or by hand
    ...     if screen.is_due(has_changed):
    ...         screen.show(progress, topic="batch of 64")
    >>> screen.end(progress)

    A line that ticks each second is for a notebook and a terminal; where output goes to a file there is one for each `topic`
    and one every half a minute.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        *,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._is_notebook, self._stream, self._clock = hasattr(shell, "kernel"), stream, clock
        self._display: Any = None
        self._topic: str | None = None
        self._drawn = self._quiet_since = -float("inf")
        self._is_line_open = False
        self._is_hushed = self._is_of_beats = self._is_ended = False
        self._beats: Callable[[], Drawing] | None = None
        self._drawing = threading.RLock()

    @property
    def is_used(self) -> bool:
        """Whether anything was drawn."""
        return self._drawn > -float("inf")

    def is_due(self, has_changed: bool) -> bool:
        """Whether to draw now: soon after something changed, and each second whatever happens; never with progress off."""
        return options.progress and self._clock() - self._drawn >= (
            SECONDS_BETWEEN_UPDATES if has_changed else SECONDS_OF_SILENCE
        )

    def show(self, shown: Drawing, *, topic: str = "") -> None:
        """Draw it in the place of what was there; from any thread."""
        with self._drawing:
            now = self._clock()
            if not options.progress:
                return
            if self._is_notebook:
                self._redraw(shown)
            elif self._out.isatty():
                self._overwrite(shown.line)
            elif topic == self._topic and now - self._drawn < SECONDS_BETWEEN_LINES:
                return
            else:
                print(shown.line, file=self._out, flush=True)
            self._drawn, self._topic = now, topic
            self._is_of_beats = self._is_ended = False

    def beats(self, drawing: Callable[[], Drawing] | None) -> None:
        """From now on this is what beats, while something does; None: again what `beating` was given."""
        self._beats = drawing

    def hush(self, is_hushed: bool = True) -> None:
        """From now on nothing beats: something else shows what goes on, or writes there."""
        with self._drawing:
            self._is_hushed = is_hushed
            if is_hushed and not self._is_notebook:
                self.clear()

    @contextmanager
    def beating(self, drawing: Callable[[], Drawing | None]) -> Iterator[None]:
        """While entered, a thread draws this whenever nothing else was drawn for a second; None draws nothing.

        Nothing of it stays. Where output goes to a file nothing beats.
        """
        if not options.progress or not (self._is_notebook or self._out.isatty()):
            yield
            return
        self._quiet_since = self._clock()  # what is over within a second needs no word
        over = threading.Event()
        context = contextvars.copy_context()  # by it a kernel knows the cell that a display belongs to
        thread = threading.Thread(
            target=context.run, args=(self._beat, drawing, over), name="accel heartbeat", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
            if self._is_of_beats:
                self.clear()

    def _beat(self, drawing: Callable[[], Drawing | None], over: threading.Event) -> None:
        while not over.wait(SECONDS_BETWEEN_UPDATES):
            with self._drawing:
                is_first = self._is_of_beats or not self.is_used
                is_quiet = self._clock() - max(self._drawn, self._quiet_since) >= SECONDS_OF_SILENCE
                if is_quiet and not (self._is_hushed or self._is_ended):
                    self._draw_or_skip(self._beats or drawing, is_first=is_first)

    def _draw_or_skip(self, drawing: Callable[[], Drawing | None], *, is_first: bool) -> None:
        try:
            shown = drawing()
        except RuntimeError:
            return  # what it reads changed in the middle, as a dict does; the next turn draws
        if shown is not None:
            self.show(shown, topic=self._topic or "")
            self._is_of_beats = is_first

    def end(self, shown: Drawing) -> None:
        """Leave this, also with progress off: in a terminal no ticking line stays, in a notebook the display keeps it."""
        with self._drawing:
            self._is_of_beats, self._is_ended = False, True
            if self._is_notebook:
                self._redraw(shown)
            elif self._is_line_open:
                self._overwrite(shown.line)
                print(file=self._out, flush=True)
                self._is_line_open = False
            elif not options.progress:
                print(shown.line, file=self._out, flush=True)

    def clear(self) -> None:
        """Leave nothing in a terminal, and in a notebook an empty place."""
        with self._drawing:
            if self._display is not None:
                self._display.update({"text/plain": "", "text/html": ""}, raw=True)
            elif self._is_line_open:
                self._overwrite("")
                print("\r", end="", file=self._out, flush=True)
                self._is_line_open = False

    @property
    def _out(self) -> TextIO:
        return self._stream or sys.stdout

    def _redraw(self, shown: Drawing) -> None:
        from IPython.display import display

        if self._display is None:
            self._display = display(shown, display_id=True)
        else:
            self._display.update(shown)

    def replace(self, panel: Any) -> None:
        """Put a panel into a notebook's display; a terminal has no place for it."""
        with self._drawing:
            if self._display is not None:  # raw: shown by itself it would take a display of its own
                self._display.update(panel._repr_mimebundle_(), raw=True)
                self._is_hushed = True

    def _overwrite(self, line: str) -> None:
        columns = shutil.get_terminal_size().columns
        print(f"\r{line[: columns - 1]}{_CLEAR_TO_END}", end="", file=self._out, flush=True)
        self._is_line_open = True
