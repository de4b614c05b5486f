"""Until a cell writes its first line, the place where it writes is free for a line that moves."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class _Told:
    """A stream that says when something is written to it, and is otherwise the stream itself."""

    def __init__(self, stream: Any, on_write: Callable[[], None]) -> None:
        self._stream, self._on_write = stream, on_write

    def write(self, text: str) -> Any:
        self._on_write()
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def before_the_first_write(call: Callable[[], None]) -> Iterator[None]:
    """While entered, `call` once, right before anything is written to standard output or error; then both are as they were.

    >>> with before_the_first_write(screen.hush):
    ...     print("epoch 1")
    """
    before = {name: getattr(sys, name) for name in ("stdout", "stderr")}

    def give_back() -> None:
        for name, stream in told.items():
            if getattr(sys, name) is stream:  # not what the cell put there
                setattr(sys, name, before[name])

    def on_write() -> None:
        give_back()
        call()

    told = {name: _Told(stream, on_write) for name, stream in before.items()}
    for name, stream in told.items():
        setattr(sys, name, stream)
    try:
        yield
    finally:
        give_back()
