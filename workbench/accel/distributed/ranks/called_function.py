"""A function of the user's as a cell that calls it: what it reaches besides the notebook's variables comes home too."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

from accel.workload.cell_names import names_read
from accel.workload.namespace_reads import codes_behind, globals_read

CALLED, REACHED, RETURNED = "accel_call", "accel_reached", "accel_returned"
SOURCE = f"{RETURNED} = {CALLED}()\n"


def names_for(function: Callable[[], Any]) -> dict[str, Any]:
    """The names that the cell `SOURCE` needs in addition to the notebook's.

    >>> names_for(functools.partial(train, model))["accel_reached"]["args"]
    (model,)
    """
    return {CALLED: function, REACHED: _reached(function)}


def globals_of(values: Iterable[Any], namespace: dict[str, Any]) -> tuple[str, ...]:
    """The notebook's variables that the functions behind these values read, and what those lead to in turn.

    >>> globals_of([train], globals())
    ('model', 'loader')
    """
    codes = [code for value in values for code in codes_behind(value, namespace)]
    names = dict.fromkeys(name for code in codes for name in globals_read(code) if name.isidentifier())
    return names_read("\n".join(names), namespace)


def namespace_of(function: Callable[[], Any], otherwise: dict[str, Any]) -> dict[str, Any]:
    """The variables that the function sees as global, where they travel with it: those of __main__."""
    while isinstance(function, functools.partial):
        function = function.func
    plain: Any = getattr(function, "__func__", function)
    if getattr(plain, "__module__", "") == "__main__" and hasattr(plain, "__globals__"):
        found: dict[str, Any] = plain.__globals__
        return found
    return otherwise or vars(sys.modules["__main__"])


def name_of(function: Callable[[], Any]) -> str:
    """What to call it in a message."""
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__name__", type(function).__name__))


def _reached(function: Any) -> dict[str, Any]:
    """Its closure, its own object and the arguments that are bound already."""
    if isinstance(function, functools.partial):
        return {"args": function.args, "keywords": function.keywords, "of": _reached(function.func)}
    found: dict[str, Any] = {"self": getattr(function, "__self__", None)}
    plain = getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return found | {"object": function}
    for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=True):
        try:
            found[f"closure {name}"] = cell.cell_contents
        except ValueError:  # not bound yet
            continue
    defaults = (plain.__defaults__ or (), plain.__kwdefaults__ or {})
    return found | {"defaults": defaults}
