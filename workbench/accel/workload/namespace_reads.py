"""Which code runs behind an object of the notebook, and which globals that code reads."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

_GLOBAL_READS = {"LOAD_GLOBAL", "LOAD_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"}
_MOST_OBJECTS, _MOST_ELEMENTS = 10_000, 1_000  # of one name, of one container: a million numbers hold no code
_SEQUENCES: tuple[Any, ...] = (list, tuple, set, frozenset)
LEAVES = (str, bytes, int, float, complex, bool, type(None), CodeType, ModuleType)


@functools.lru_cache(maxsize=4096)
def globals_read(code: CodeType, *, nested: bool = True) -> tuple[str, ...]:
    """Names a code object looks up in its module, in order; with `nested`, also the functions inside it."""
    names = {
        instruction.argval: None
        for instruction in dis.get_instructions(code)
        if instruction.opname in _GLOBAL_READS
    }  # fmt: skip
    for inner in nested_codes(code) if nested else ():
        names.update(dict.fromkeys(globals_read(inner)))
    return tuple(names)


def globals_written(code: CodeType) -> tuple[str, ...]:
    """Names that a function itself writes in its module: by `global`."""
    written = (each for each in dis.get_instructions(code) if each.opname == "STORE_GLOBAL")
    return tuple({instruction.argval: None for instruction in written})


def nested_codes(code: CodeType) -> list[CodeType]:
    """Code objects that lie directly inside another one."""
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]


def codes_behind(value: object, namespace: Mapping[str, Any]) -> Iterator[CodeType]:
    """Code of the functions of this notebook that a value leads to; see `functions_behind`."""
    return (function.__code__ for function in functions_behind(value, namespace))


def functions_behind(value: Any, namespace: Mapping[str, Any]) -> Iterator[FunctionType]:
    """Functions of this notebook (their globals are the namespace) that a value leads to.

    Followed: closures, methods, bases, wrapped functions, partials, attributes, and what containers hold; never a module,
    whose thousands of names are not the notebook's.
    """
    if is_a(value, LEAVES):
        return
    waiting, known, looked = [value], {id(value)}, [value]
    while waiting and len(known) < _MOST_OBJECTS:
        current = waiting.pop()
        if is_a(current, FunctionType) and current.__globals__ is namespace:
            yield current
        parts: list[object] = []
        with suppress(Exception):  # a class of the user's whose metaclass hides what it has
            parts += parts_in_one_step(current)
        for part in parts:
            if id(part) not in known and part is not namespace and not is_a(part, LEAVES):
                known.add(id(part))
                looked.append(part)  # keeps temporary objects alive, so that no id is used twice
                waiting.append(part)


def parts_in_one_step(value: Any) -> Iterator[object]:
    """What a value leads to in one step, without running any of the user's code."""
    if is_a(value, FunctionType):
        yield from (cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell))
        yield from vars(value).values()
        yield from value.__defaults__ or ()
        yield from (value.__kwdefaults__ or {}).values()
    elif is_a(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif is_a(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif is_a(value, (staticmethod, classmethod)):
        yield value.__func__
    elif is_a(value, property):
        yield from (value.fget, value.fset, value.fdel)
    elif is_a(value, type):
        if not _is_library_class(value):
            yield from value.__mro__
            yield from vars(value).values()
    elif is_a(value, dict):
        yield from list(islice(dict.values(value), _MOST_ELEMENTS))
    elif is_a(value, _SEQUENCES):
        kind = next(kind for kind in _SEQUENCES if is_a(value, kind))
        yield from list(islice(kind.__iter__(value), _MOST_ELEMENTS))
    else:
        yield type(value)
        yield from attributes_of(value).values()


def is_a(value: object, kinds: type | tuple[type, ...]) -> bool:
    """As `isinstance`, but without asking the value for its `__class__`, which may be a property of the user's.

    >>> is_a(3, (int, str))
    True
    """
    return issubclass(type(value), kinds)


def _is_filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 -- an unfilled cell raises
    except ValueError:
        return False
    return True


def _is_library_class(value: type) -> bool:
    """Classes of installed modules hold none of the notebook's code; looking through all of torch's would take long."""
    module = sys.modules.get(value.__module__)
    return (
        module is not None and module.__name__ != "__main__" and getattr(module, "__file__", None) is not None
    )


def attributes_of(value: object) -> dict[str, Any]:
    """A copy of an object's own attributes, without running any of the user's code.

    >>> attributes_of(SimpleNamespace(a=1))
    {'a': 1}
    """
    return dict(dict.items(_dict_of(value)))


def attribute_of(value: object, name: str) -> Any:
    """One of the attributes that `attributes_of` gives; None if none has that name.

    >>> attribute_of(SimpleNamespace(a=1), "a")
    1
    """
    return dict.get(_dict_of(value), name)


def _dict_of(value: object) -> dict[str, Any]:
    try:
        attributes = object.__getattribute__(value, "__dict__")  # past any `__getattribute__` of the user's
    except Exception:  # it has none, or a property of the user's stands in its place
        return {}
    return attributes if is_a(attributes, dict) else {}
