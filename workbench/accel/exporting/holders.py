"""Whether something beside the cell's own lines could call a model: a function, trainer or wrapper that holds it."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_DEEPEST = 6
_LONGEST = 200  # a list of records is not searched to its end; a list of models is short


def can_reach(value: object, target: object, namespace: dict[str, Any]) -> bool:
    """Whether `value` is, holds, or (a function) reads the target, as far as six steps away.

    >>> can_reach(trainer, trainer.model, {})
    True
    """
    seen: dict[int, object] = {id(value): value}
    layer = [value]
    for _ in range(_DEEPEST):
        if id(target) in seen:
            return True
        held = {id(one): one for holder in layer for one in _held(holder, namespace)}
        layer = [one for key, one in held.items() if key not in seen]
        seen.update(held)
    return id(target) in seen


def _held(value: object, namespace: dict[str, Any]) -> Iterable[object]:
    """What one object holds directly; nothing for modules, tensors and plain values."""
    if isinstance(value, (str, bytes, int, float, complex, ModuleType, BuiltinFunctionType, type(None))):
        return ()
    if isinstance(value, FunctionType):
        return _read_by_function(value, namespace)
    if isinstance(value, MethodType):
        return (value.__self__, value.__func__)
    if isinstance(value, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, dict):
        return list(value.values())[:_LONGEST]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)[:_LONGEST]
    if isinstance(value, (classmethod, staticmethod)):
        return (value.__func__,)
    if isinstance(value, property):
        return (value.fget,)
    if isinstance(value, type):
        return (*vars(value).values(), *value.__bases__)
    return _attributes(value)


def _attributes(value: object) -> list[object]:
    """Attributes of an object, its class (for the methods), and every module inside a module."""
    import torch

    if isinstance(value, (torch.Tensor, torch.optim.Optimizer)):
        return []
    modules = value.modules() if isinstance(value, torch.nn.Module) else ()
    return [*modules, *getattr(value, "__dict__", {}).values(), type(value)]


def _read_by_function(function: FunctionType, namespace: dict[str, Any]) -> list[object]:
    """Values of the globals, closure and defaults that a function of the notebook reads."""
    held: list[object] = [cell.cell_contents for cell in function.__closure__ or () if _is_filled(cell)]
    held += [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    if function.__globals__ is namespace:
        names = {name for code in _codes(function.__code__) for name in code.co_names}
        held += [function.__globals__[name] for name in sorted(names) if name in function.__globals__]
    return held


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:  # a closure whose variable is not bound yet
        return False
    return True
