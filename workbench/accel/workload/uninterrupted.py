"""Hold an interrupt back while something and the record of it change together."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def uninterrupted() -> Iterator[None]:
    """An interrupt (Ctrl-C, the notebook's Stop) that arrives inside takes effect at the end of the block.

    >>> with uninterrupted():
    ...     nn.Module.__call__ = watched
    ...     undo.append(nn.Module)

    Python raises KeyboardInterrupt between any two lines of the main thread; other threads never see it. Only for blocks
    that take well under a second: until the end nothing can stop them.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived:
            before(*arrived[0])
