"""Call torch as from the user's line: Python gives a warning the line of a frame, and a patch stands between the two."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from functools import lru_cache
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any

PACKAGE = __name__.partition(".")[0]


def at_callers_line(original: Callable[..., Any]) -> Callable[..., Any]:
    """For a wrapper round `original`: called by this, it warns as if there were no wrapper.

    >>> original = at_callers_line(LRScheduler.step)   # what a patch calls in its turn
    cell.py:12: UserWarning: Detected call of `lr_scheduler.step()` before `optimizer.step()`.

    Not only what is shown is right then: filters and "once a line" go by the user's module and line too. Between the two stands a
    frame that has file, line and globals of the first one that is not accel's; no traceback shows it.
    """
    from torch.compiler import is_compiling

    @functools.wraps(original)
    def called(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():  # dynamo traces the original
            return original(*args, **kwargs)
        frame = _outside(sys._getframe(1))
        here = FunctionType(_code_at(frame.f_code.co_filename, frame.f_lineno), frame.f_globals)
        del frame  # kept by a traceback, it would keep what it holds
        try:
            return here(original, args, kwargs)
        except BaseException as error:
            _take_out_next(error.__traceback__)
            raise

    return called


def _take_out_next(shown: TracebackType | None) -> None:
    if shown is not None and shown.tb_next is not None:
        shown.tb_next = shown.tb_next.tb_next


def _outside(frame: FrameType) -> FrameType:
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == PACKAGE:
        frame = frame.f_back
    return frame


def _call(original: Callable[..., Any], args: Any, kwargs: Any) -> Any: return original(*args, **kwargs)  # fmt: skip


@lru_cache(maxsize=4096)
def _code_at(filename: str, line: int) -> CodeType:
    """The code of `_call`, which is all on its first line, as if it stood there."""
    return _call.__code__.replace(co_filename=filename, co_firstlineno=line)
