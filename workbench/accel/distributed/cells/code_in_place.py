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
        self._places: dict[int, _Place] = {}
        self.changed()

    def changed(self) -> str:
        """What has been replaced since; empty where nothing was. Modules that came since are known from now on."""
        found, places, seen_before = "", {}, bool(self._places)
        for place, before in self._looked_at():
            places[id(place.owner)] = place
            if not found and before is None and seen_before:
                found = self._strange_in(place)
            elif not found and before is not None and place is not before:
                found = self._difference(before, place)
        self._places = places
        return found

    def _looked_at(self) -> Iterator[tuple[_Place, _Place | None]]:
        """Each public module and each class made in one, as it is now and as it was: the same object where nothing is new."""
        for name, module in list(sys.modules.items()):
            if type(module) is not types.ModuleType or any(part[:1] == "_" for part in name.split(".")):
                continue
            place, before = self._look(module)
            yield place, before
            for made in place.classes:
                yield self._look(made)

    def _look(self, owner: Any) -> tuple[_Place, _Place | None]:
        before, mark = self._places.get(id(owner)), _mark(owner)
        return (before if before is not None and before.mark == mark else _Place(owner, mark)), before

    def _difference(self, before: _Place, now: _Place) -> str:
        owner = now.owner
        for name, value in before.code.items():
            here = vars(owner).get(name)
            if here is not value and (not _is_code(here) or self._stood_somewhere(here) or _is_users(here)):
                return f"{_named(owner, name)} is another one"
        if isinstance(owner, type):  # what it inherited until now
            for name in now.code.keys() - before.code.keys():
                if _is_users(now.code[name]):
                    return f"{_named(owner, name)} is new"
        return ""

    def _stood_somewhere(self, code: Any) -> bool:
        return any(code is value for place in self._places.values() for value in place.code.values())

    def _strange_in(self, place: _Place) -> str:
        """Of a module that this run imported, code of the notebook's own."""
        for name, value in place.code.items():
            if not os.path.exists(file := _file_of(value)) and file.startswith("<") and not _is_made(file):
                return f"{_named(place.owner, name)} is the notebook's"
        return ""


class _Place:
    """A module or a class, with the functions and classes in it. The mark tells whether any of its attributes is another one."""

    def __init__(self, owner: Any, mark: int) -> None:
        self.owner, self.mark = owner, mark
        self.code = {name: value for name, value in list(vars(owner).items()) if _is_code(value)}
        self.classes: list[type] = []  # made in this module
        if isinstance(owner, types.ModuleType):
            made = (value for value in self.code.values() if isinstance(value, type))
            self.classes = [one for one in made if sys.modules.get(str(vars(one).get("__module__"))) is owner]


def _mark(owner: Any) -> int:
    attributes = dict(vars(owner))
    return hash((*attributes, *map(id, attributes.values())))


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
    return f"{vars(owner).get('__name__', 'a module')}.{name}"  # a cell may have taken its name away
