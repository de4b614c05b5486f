"""Hold an interrupt back while something and the record of it change together; find one again that Python has lost."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
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


@contextmanager
def lost_interrupts() -> Iterator[Callable[[], None]]:
    """Gives what raises an interrupt that was lost since: for each turn of a loop that waits for long.

    >>> with lost_interrupts() as raise_lost:
    ...     while not is_over():
    ...         raise_lost()

    Python raises KeyboardInterrupt in whatever runs next in the main thread. Where that is a finalizer, or a function that a
    library has called after each garbage collection (hypothesis, jax and dask do), no loop ever hears of it.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is not signal.default_int_handler:
        yield lambda: None  # a program with its own handler keeps it
        return
    arrived: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)
        signal.default_int_handler(number, frame)

    def raise_lost() -> None:
        if arrived:
            arrived.clear()
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield raise_lost
    finally:
        signal.signal(signal.SIGINT, before)
