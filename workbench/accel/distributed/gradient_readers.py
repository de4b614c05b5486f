"""Whether code reads gradients itself: then they have to be means after every backward pass."""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

_NAMES = {"grad", "no_sync", "register_hook", "register_post_accumulate_grad_hook"}
_LIBRARIES = (f"{os.sep}torch{os.sep}", f"{os.sep}accel{os.sep}", f"{os.sep}importlib{os.sep}")


def reads_gradients(codes: Iterable[types.CodeType]) -> bool:
    """Whether any of this code, or a function inside it, names a gradient.

    >>> reads_gradients([compile("norm = p.grad.norm()", "", "exec")])
    True
    """
    waiting = list(codes)
    while waiting:
        code = waiting.pop()
        if _NAMES & set(code.co_names):
            return True
        waiting += [each for each in code.co_consts if isinstance(each, types.CodeType)]
    return False


def running_code() -> list[types.CodeType]:
    """The code of every function that is being called now, libraries excepted."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        if not any(part in frame.f_code.co_filename for part in _LIBRARIES):
            found.append(frame.f_code)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def code_in(namespace: Mapping[str, Any]) -> Iterator[types.CodeType]:
    """The code of the functions and classes that the notebook made."""
    for value in list(namespace.values()):
        holder = value if isinstance(value, (type, types.FunctionType)) else type(value)
        if getattr(holder, "__module__", "") != "__main__":
            continue
        functions = [holder] if isinstance(holder, types.FunctionType) else list(vars(holder).values())
        yield from (each.__code__ for each in functions if isinstance(each, types.FunctionType))
