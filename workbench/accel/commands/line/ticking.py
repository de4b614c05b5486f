"""A line that ticks while a plain function waits: where somebody sees it, a terminal or a notebook, and nowhere else."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TextIO

from accel import options
from accel.measuring.progress import beat_of
from accel.shown_text import one_line

SECONDS_BETWEEN_TICKS = 1.0


@contextmanager
def ticking(line: Callable[[], str], *, stream: TextIO | None = None) -> Iterator[threading.Event]:
    """Each second what `line` says, in the place of what it said before; nothing of it stays. Setting the event ends it.

    >>> with ticking(lambda: f"Trial: {trial.phases.now}, {trial.seconds:.0f} s"):
    ...     trial.wait()
    """
    over, out = threading.Event(), stream or sys.stderr
    if not options.progress or not is_watched(out):
        yield over
        return
    thread = threading.Thread(target=_tick, args=(line, out, over), name="accel ticking", daemon=True)
    thread.start()
    try:
        yield over
    finally:
        over.set()
        thread.join()


@contextmanager
def saying(called: str) -> Iterator[None]:
    """While a function of accel or a command of the program works, each second what it is doing.

    >>> with saying("accel peaks"):
    ...     peaks()
    """
    began = time.monotonic()
    with ticking(lambda: str(beat_of(called, time.monotonic() - began))):
        yield


def wait_ticking(trial: Any, about: str = "") -> Any:
    """The result of a trial that runs; what goes on is shown until then."""
    with ticking(lambda: f"{about} {trial.goes_on}".lstrip()):
        return trial.wait()


def is_watched(stream: TextIO | None) -> bool:
    """Whether a line there can be overwritten: a terminal's can, and a notebook's."""
    return stream is not None and (
        stream.isatty() or type(stream).__module__.partition(".")[0] == "ipykernel"
    )


def _tick(line: Callable[[], str], out: TextIO, over: threading.Event) -> None:
    widest = 0
    while not over.wait(SECONDS_BETWEEN_TICKS):
        try:
            told = one_line(line())[: shutil.get_terminal_size().columns - 1]
        except RuntimeError:
            continue  # what it reads changed in the middle, as a dict does
        widest = max(widest, len(told))
        print(f"\r{told:<{widest}}", end="", file=out, flush=True)
    if widest:
        print(f"\r{'':<{widest}}\r", end="", file=out, flush=True)
