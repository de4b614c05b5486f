"""Which functions and classes stand where in a process: what a cell has put in their place is noticed."""

from __future__ import annotations

import os
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_CODE = frozenset(
    {
        types.FunctionType, types.BuiltinFunctionType, staticmethod, classmethod, property,
        types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType,
    }
)  # fmt: skip
_OURS_AND_PYTHONS = (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"))
_PACKAGES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class CodeInPlace:
    """The functions and classes of all public modules, as they are now.

    >>> code = CodeInPlace(); torch.nn.Linear.forward = lambda self, x: x
    >>> code.changed()
    'Linear.forward of torch.nn.modules.linear is another one'

    Libraries replace functions of others as they are imported, and that is theirs. What counts comes from the notebook or a file
    of the user's, is no function any more, or is one that stood elsewhere.
    """

    def __init__(self) -> None:
        self._owners: dict[int, tuple[Any, dict[str, Any]]] = {}
        self._known: set[int] = set()
        self.changed()

    def changed(self) -> str:
        """What has been replaced since; empty where nothing was. Modules that came since are known from now on."""
        found, held = "", {}
        for owner in _owners():
            now = {name: value for name, value in list(vars(owner).items()) if _is_code(value)}
            held[id(owner)] = (owner, now)
            if not found and id(owner) in self._owners:
                found = self._difference(owner, self._owners[id(owner)][1], now)
            elif not found:
                found = self._strange_in(owner, now)
        self._owners = held
        self._known = {id(value) for _, own in held.values() for value in own.values()}
        return found

    def _difference(self, owner: Any, before: dict[str, Any], now: dict[str, Any]) -> str:
        for name, value in before.items():
            here = vars(owner).get(name)
            if here is not value and (not _is_code(here) or id(here) in self._known or _is_users(here)):
                return f"{_named(owner, name)} is another one"
        if isinstance(owner, type):  # what it inherited until now
            for name in now.keys() - before.keys():
                if _is_users(now[name]):
                    return f"{_named(owner, name)} is new"
        return ""

    def _strange_in(self, owner: Any, now: dict[str, Any]) -> str:
        """Of a module that this run imported, code of the notebook's own."""
        for name, value in now.items() if self._owners else ():
            if not os.path.exists(file := _file_of(value)) and file.startswith("<") and not _is_made(file):
                return f"{_named(owner, name)} is the notebook's"
        return ""


def _owners() -> Iterator[Any]:
    """Public modules that are imported, and the classes made in them."""
    for name, module in list(sys.modules.items()):
        if type(module) is not types.ModuleType or any(part[:1] == "_" for part in name.split(".")):
            continue
        yield module
        for value in list(vars(module).values()):
            if issubclass(type(value), type) and vars(value).get("__module__") == name:
                yield value


def _is_code(value: Any) -> bool:
    return type(value) in _CODE or issubclass(type(value), type)


def _is_users(value: Any) -> bool:
    """Whether it comes from the notebook or a file of the user's."""
    file = _file_of(value)
    return bool(file) and not _is_made(file) and not is_installed(file)


def _is_made(file: str) -> bool:
    """By dataclasses, namedtuple and the like."""
    return file in ("<string>", "<eval_with_key>") or file.startswith(
        ("<attrs", "<eval", "<frozen", "<__array")
    )


def is_installed(file: str) -> bool:
    """Whether a file belongs to Python, to a package that is installed, or to us.

    >>> is_installed(torch.__file__)
    True
    """
    return file.startswith(_OURS_AND_PYTHONS) or any(part in file for part in _PACKAGES)


def _file_of(value: Any) -> str:
    plain = getattr(value, "__func__", None) or (value.fget if type(value) is property else value)
    if isinstance(plain, type):
        if plain.__module__ == "__main__":
            return "<notebook>"
        return str(getattr(sys.modules.get(plain.__module__), "__file__", None) or "")
    return str(getattr(getattr(plain, "__code__", None), "co_filename", ""))


def _named(owner: Any, name: str) -> str:
    if isinstance(owner, type):
        return f"{owner.__qualname__}.{name} of {owner.__module__}"
    return f"{owner.__name__}.{name}"
