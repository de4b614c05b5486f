"""Looks again and again while a page shows what is seen, and not otherwise: nothing runs for a panel nobody looks at."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from accel_widgets.main_thread import call_when_idle

GAP_S = 0.8
REST = 60  # times as long as a look took, at least: so looking takes less than 1/60 of a core, however many threads there are
PATIENCE = 10  # looks without a word from the page, while the kernel was free to hear one


class LooksWhileSeen:
    """Calls `look` in a thread of its own while pages say `seen()`; ends it by itself when they fall silent.

    >>> looks = LooksWhileSeen(panel.refresh)
    >>> looks.seen()            # a page shows it; pages repeat that every few seconds
    >>> looks.unseen()          # it was folded, scrolled away or closed
    >>> looks.close()

    A page that is gone for good cannot say so. But a kernel that runs a cell cannot hear pages either, and then it is most worth
    looking: silence counts only while the kernel's main thread is free.
    """

    def __init__(
        self, look: Callable[[], object], *, clock: Callable[[], float] = time.thread_time,
        when_idle: Callable[[Callable[[], object]], None] = call_when_idle,
    ) -> None:  # fmt: skip
        self._look, self._clock, self._when_idle = look, clock, when_idle
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._silent = 0
        self._was_free, self._is_closed = False, False

    def seen(self) -> None:
        """A page shows it."""
        with self._lock:
            self._silent = 0
            if self._is_closed or self._thread is not None:
                return
            self._wake = threading.Event()
            self._was_free = False
            self._thread = threading.Thread(
                target=self._run, args=(self._wake,), name="accel-core-map", daemon=True
            )
            self._thread.start()

    def unseen(self) -> None:
        """No page shows it."""
        with self._lock:
            self._thread = None
            self._wake.set()

    def close(self) -> None:
        """Look no more, whatever pages say."""
        with self._lock:
            self._is_closed = True
        self.unseen()

    @property
    def is_looking(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None

    def turn(self) -> float | None:
        """One look; how long to rest after it, in seconds, or None when it is time to stop."""
        if self._was_free:
            self._silent += 1
        if self._silent > PATIENCE:
            return None
        self._was_free = False
        self._when_idle(self._main_thread_is_free)
        began_s = self._clock()
        self._look()
        return max(GAP_S, REST * (self._clock() - began_s))

    def _main_thread_is_free(self) -> None:
        self._was_free = True

    def _run(self, wake: threading.Event) -> None:
        try:
            while not wake.is_set() and (rest_s := self.turn()) is not None:
                wake.wait(rest_s)
        finally:  # also when a look raised: the page's next word starts anew
            with self._lock:
                if self._wake is wake:
                    self._thread = None
