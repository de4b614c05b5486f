"""Which views of a panel are seen, as the pages say: also when a page is gone for good and cannot say so."""

from __future__ import annotations

import threading
from collections.abc import Callable

from accel_widgets.main_thread import call_when_idle

PATIENCE = 20  # turns without a word from any page, while the kernel was free to hear one


class SeenViews:
    """Hears what seen.js says of each view, and forgets them all when pages fall silent.

    >>> views = SeenViews()
    >>> views.told({"seen": True, "view": "one"})       # it appeared; pages repeat that every few seconds
    True
    >>> views.turn()                                    # about twice a second, while something is done for them
    True

    A page that is reloaded or closed says nothing. But a kernel that runs a cell cannot hear pages either: silence counts only
    while the kernel's main thread is free. Who takes more turns a second needs more `patience`.
    """

    def __init__(
        self, when_idle: Callable[[Callable[[], object]], None] = call_when_idle, *, patience: int = PATIENCE
    ) -> None:
        self._when_idle, self._patience = when_idle, patience
        self._lock = threading.Lock()
        self._views: set[str] = set()
        self._silent = 0
        self._is_asked = self._was_free = False

    def told(self, message: object) -> bool:
        """Hear a message from a page; says whether a view has just appeared."""
        if not isinstance(message, dict) or "seen" not in message:
            return False
        view = str(message.get("view"))
        with self._lock:
            self._silent, self._was_free = 0, False
            if not message["seen"]:
                self._views.discard(view)
                return False
            is_new = view not in self._views
            self._views.add(view)
            return is_new

    def __bool__(self) -> bool:
        return bool(self._views)

    def turn(self) -> bool:
        """Whether somebody sees it still; counts the silence, so it is called once each time something is done for them."""
        with self._lock:
            if self._was_free:
                self._silent += 1
            if self._silent > self._patience:
                self._views.clear()
            if not self._views:
                self._silent = 0
                return False
            self._was_free = False
            is_asked, self._is_asked = self._is_asked, True
        if not is_asked:  # while a cell runs, one question waits for its end, not one a turn
            self._when_idle(self._main_thread_is_free)
        return True

    def _main_thread_is_free(self) -> None:
        self._is_asked, self._was_free = False, True
