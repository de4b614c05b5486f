"""At most twenty redraws a second, asked for from any thread; the last one asked for is always drawn."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class CalmUpdates:
    """Calls `draw` soon after `request`, never twice within 1/`per_second`, and never from two threads at once.

    >>> updates = CalmUpdates(panel.refresh)
    >>> trial.on_change(lambda _: updates.request())
    >>> updates.close()      # waits for a drawing in progress; nothing is drawn afterwards
    """

    def __init__(self, draw: Callable[[], object], *, per_second: float = 10.0) -> None:
        self._draw, self._gap_s = draw, 1.0 / per_second
        self._state = threading.Lock()
        self._drawing = threading.RLock()
        self._timer: threading.Timer | None = None
        self._last = -float("inf")
        self._is_closed = False

    def request(self) -> None:
        """Ask for a redraw; returns at once."""
        with self._state:
            if self._is_closed or self._timer is not None:
                return
            delay_s = max(0.0, self._last + self._gap_s - time.monotonic())
            self._timer = threading.Timer(delay_s, self._draw_now)
            self._timer.daemon = True
            self._timer.start()

    def draw_now(self, draw: Callable[[], object] | None = None) -> None:
        """Draw in this thread, as soon as no other thread draws: for the first drawing and after a click.

        With `draw`, that alone: a part that must not be drawn in a thread of its own.
        """
        with self._drawing:
            if not self._is_closed:
                (draw or self._draw)()

    def close(self) -> None:
        """Draw no more."""
        with self._state:
            self._is_closed = True
            if self._timer is not None:
                self._timer.cancel()
        with self._drawing:
            pass

    def _draw_now(self) -> None:
        with self._state:
            self._timer, self._last = None, time.monotonic()
        self.draw_now()
