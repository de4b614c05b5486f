"""Whether code reads gradients itself: then they have to be means after every backward pass."""

from __future__ import annotations

import ast
import inspect
import os
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from accel.workload.namespace_reads import codes_behind, nested_codes

_NAMES = {"grad", "no_sync", "register_hook", "register_post_accumulate_grad_hook"}
_LIBRARIES = (f"{os.sep}torch{os.sep}", f"{os.sep}accel{os.sep}", f"{os.sep}importlib{os.sep}")

_PYTHON = os.path.dirname(os.__file__) + os.sep


def reads_gradients(codes: Iterable[types.CodeType]) -> bool:
    """Whether any of this code, or a function inside it, names a gradient.

    >>> reads_gradients([compile("norm = p.grad.norm()", "", "exec")])
    True
    """
    return any(_NAMES & set(code.co_names) for code in with_nested(codes))


def with_nested(codes: Iterable[types.CodeType]) -> Iterator[types.CodeType]:
    """These, and the code of the functions and classes inside them."""
    waiting = list(codes)
    while waiting:
        code = waiting.pop()
        yield code
        waiting += nested_codes(code)


def codes_of(source: str, filename: str, namespace: Mapping[str, Any]) -> list[types.CodeType]:
    """What a cell may run: its own code, and that of the notebook's functions and classes that came with it."""
    own = compile(source, filename, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return [own, *(code for value in list(namespace.values()) for code in codes_behind(value, namespace))]


def running_code() -> list[types.CodeType]:
    """The code of every function that is being called now, libraries excepted."""
    found, frame = [], sys._getframe(1)
    while frame is not None:
        if not any(part in frame.f_code.co_filename for part in _LIBRARIES):
            found.append(frame.f_code)
        frame = frame.f_back  # type: ignore[assignment]
    return found


def is_of_library(code: types.CodeType) -> bool:
    """Whether this belongs to an installed package or to accel, and so not to the user."""
    file = code.co_filename
    return "site-packages" in file or file.startswith(_PYTHON) or any(part in file for part in _LIBRARIES)


def code_in(namespace: Mapping[str, Any]) -> Iterator[types.CodeType]:
    """The code of the functions and classes that the notebook made, and of the optimizers that torch did not."""
    for value in list(namespace.values()):
        holder = value if isinstance(value, (type, types.FunctionType)) else type(value)
        if isinstance(holder, types.FunctionType):
            functions = [holder] if holder.__module__ == "__main__" else []
        else:
            functions = [each for cls in holder.__mro__ if _is_own(cls) for each in vars(cls).values()]
        unwrapped = (inspect.unwrap(each) for each in functions if isinstance(each, types.FunctionType))
        yield from (each.__code__ for each in unwrapped if isinstance(each, types.FunctionType))


def _is_own(cls: type[Any]) -> bool:
    import torch

    return cls.__module__ == "__main__" or (
        issubclass(cls, torch.optim.Optimizer) and not cls.__module__.startswith("torch.")
    )
