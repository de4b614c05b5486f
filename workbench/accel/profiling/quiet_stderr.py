"""Keep what the profiler prints to file descriptor 2 out of the notebook, without losing anybody else's lines."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

# Kineto logs from C++, past sys.stderr: "USDT:2026-01-31 10:00:00 17:17 SyncActivityProfilerHandler.cpp:39] …".
# Recording memory adds "[W1231 10:00:00.123456789 CPUAllocator.cpp:245] Memory block of unknown size …".
PROFILER_LINE = re.compile(
    rb"^(?:[A-Z]+:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+ \w+\.(?:cpp|h|cc)"
    rb"|\[W\d+ [\d:.]+ CPUAllocator\.cpp):\d+\] (.*)$"
)


@contextmanager
def profiler_lines_aside() -> Iterator[list[str]]:
    """Collect the profiler's own lines while the block runs; every other line is written again when it ends.

    >>> with profiler_lines_aside() as said:
    ...     profiler.__enter__()
    >>> said
    ['profiler_start']
    """
    said: list[str] = []
    _flush()
    try:
        original, aside = os.dup(2), tempfile.TemporaryFile()  # noqa: SIM115 -- closed below, in its own `with`
    except (
        OSError
    ):  # no descriptor 2 (a daemon), or no disk: better the lines than a fault in the user's cell
        yield said
        return
    with aside:
        os.dup2(aside.fileno(), 2)
        try:
            yield said
        finally:
            _flush()
            os.dup2(original, 2)
            os.close(original)
            aside.seek(0)
            _write_all(2, sort_lines(aside.read(), said))


def sort_lines(output: bytes, said: list[str]) -> bytes:
    """Move the profiler's lines into `said`; give back the rest, byte for byte."""
    rest = []
    for line in output.splitlines(keepends=True):
        if found := PROFILER_LINE.match(line.rstrip(b"\r\n")):
            said.append(found.group(1).decode(errors="replace"))
        else:
            rest.append(line)
    return b"".join(rest)


def _flush() -> None:
    """What Python still holds belongs before, or into, the block it was written in."""
    if sys.__stderr__ is not None and not sys.__stderr__.closed:
        sys.__stderr__.flush()


def _write_all(descriptor: int, output: bytes) -> None:
    while output:
        output = output[os.write(descriptor, output) :]
