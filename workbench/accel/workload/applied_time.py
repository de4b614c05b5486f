"""How long plans were applied to objects while a cell ran: time that is no part of the training's steps.

A cell that builds its model gets the plan in the middle of its run, when the model is used for the first time. Whoever times
steps, in a worker or in a profile, looks here before and after.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class _Applied:
    total_ns = 0
    depth = 0


def applied_ns() -> int:
    """Nanoseconds so far, in this process.

    >>> with applying():
    ...     stack.enter_context(plan.apply(found))
    >>> applied_ns()
    312345678
    """
    return _Applied.total_ns


@contextmanager
def applying() -> Iterator[None]:
    """What is done within is of no step; a GPU ends before it what it had been given to do, and after it what this gave it."""
    if _Applied.depth == 0:
        _wait_for_gpu()
    began = time.perf_counter_ns()
    _Applied.depth += 1
    try:
        yield
    finally:
        _Applied.depth -= 1
        if _Applied.depth == 0:
            _wait_for_gpu()
            _Applied.total_ns += time.perf_counter_ns() - began


def _wait_for_gpu() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized() and not torch.cuda.is_current_stream_capturing():
        torch.cuda.synchronize()
