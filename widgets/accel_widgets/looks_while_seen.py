"""Looks again and again while a page shows what is seen, and not otherwise: nothing runs for a panel nobody looks at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress

from accel_widgets.main_thread import call_when_idle
from accel_widgets.seen_views import PATIENCE, SeenViews

GAP_S = 0.8
REST = 100  # times as long as a look took, at least: so looking takes less than 1 % of a core, however many threads there are


class LooksWhileSeen:
    """Calls `look` in a thread of its own while pages say that they show it; ends it by itself when they fall silent.

    With `is_wanted` it looks only while there is something to see; `again` says that there may be.

    >>> looks = LooksWhileSeen(panel.refresh)
    >>> looks.told({"seen": True, "view": "one"})       # a page shows it; pages repeat that every few seconds
    >>> looks.told({"seen": False, "view": "one"})      # it was folded, scrolled away or closed
    >>> looks.close()
    """

    def __init__(
        self, look: Callable[[], object], *, gap_s: float = GAP_S, is_wanted: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.thread_time,
        when_idle: Callable[[Callable[[], object]], None] = call_when_idle,
    ) -> None:  # fmt: skip
        self._look, self._clock, self._gap_s, self._is_wanted = look, clock, gap_s, is_wanted
        self._views = SeenViews(when_idle, patience=round(PATIENCE * GAP_S / gap_s))
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def told(self, message: object) -> None:
        """Hear what a page says of one view."""
        self._views.told(message)
        self.again()

    def again(self) -> None:
        """Look, if a page shows it: there may be something to see now."""
        with self._lock:
            if not self._views or self._is_closed or not self._is_wanted():
                self._end()
            elif self._thread is None:
                self._wake = threading.Event()
                self._thread = threading.Thread(
                    target=self._run, args=(self._wake,), name="accel-looks", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """Look no more, whatever pages say."""
        with self._lock:
            self._is_closed = True
            self._end()

    @property
    def is_looking(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None

    def turn(self) -> float | None:
        """One look; how long to rest after it, in seconds, or None when it is time to stop."""
        if not self._views.turn():
            return None
        began_s = self._clock()
        with suppress(RuntimeError):  # a dict that it reads changed in the middle: the next look sees it
            self._look()
        if not self._is_wanted():
            return None
        return max(self._gap_s, REST * (self._clock() - began_s))

    def _end(self) -> None:
        self._thread = None
        self._wake.set()

    def _run(self, wake: threading.Event) -> None:
        try:
            while not wake.is_set() and (rest_s := self.turn()) is not None:
                wake.wait(rest_s)
        finally:  # also when a look raised: the page's next word starts anew
            with self._lock:
                if self._wake is wake:
                    self._thread = None
        if not wake.is_set():
            self.again()  # something may have begun since the last look
