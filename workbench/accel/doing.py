"""What this process is doing now, in words: notebook and terminal show them each second of whatever takes longer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Doing:
    """Something that goes on: in words, which may change, and since when."""

    words: str | Callable[[], str]
    since: float = field(default_factory=time.monotonic)

    def __str__(self) -> str:
        return self.words if isinstance(self.words, str) else self.words()

    @property
    def seconds(self) -> float:
        """For how long it has been going on."""
        return time.monotonic() - self.since


_lock = threading.Lock()
_going_on: list[Doing] = []


@contextmanager
def doing(words: str | Callable[[], str]) -> Iterator[None]:
    """While entered, this is what goes on.

    >>> with doing("packing the cell"):
    ...     str(what_goes_on())
    'packing the cell'
    """
    this = Doing(words)
    with _lock:
        _going_on.append(this)
    try:
        yield
    finally:
        with _lock:
            _going_on.remove(this)


def what_goes_on() -> Doing | None:
    """The innermost of what goes on; None where nothing has said what it does."""
    with _lock:
        return _going_on[-1] if _going_on else None
