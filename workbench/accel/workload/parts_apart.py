"""Objects that pickle a part of themselves by a pickler of their own, as skorch's nets do.

Such a part names the notebook's classes and functions, which have to be there when it is unpickled. And it is copied apart from
all else: an optimizer outside would train parameters that the model no longer has.
"""

from __future__ import annotations

import functools
import re
import types
from collections.abc import Iterator
from typing import Any

from accel.errors import NotShippable


class PartsApart:
    """Looks at each object that is packed. Finds the notebook's classes and functions that pickles inside objects name, and
    the parts of models that were not packed with the rest.

    >>> parts = PartsApart(namespace)
    >>> dump(contents, memory, see=parts.see)
    >>> parts.check()
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        import torch

        self.named: dict[str, Any] = {}  # classes and functions that a pickle in a bytes object names
        self._namespace, self._module, self._tensor = namespace, torch.nn.Module, torch.Tensor
        self._modules: dict[int, Any] = {}
        self._parameters: set[int] = set()

    def see(self, obj: Any) -> None:
        """An object is about to be pickled."""
        cls = type(obj)
        if cls is bytes:
            if b"__main__" in obj:
                self._read(obj)
        elif issubclass(cls, self._module):
            self._modules[id(obj)] = obj
        elif issubclass(cls, self._tensor):
            self._parameters.add(id(obj))

    def _read(self, pickled: bytes) -> None:
        for match in self._global.finditer(pickled):
            name = (match[1] or match[2]).decode()
            self.named[name] = self._namespace[name]

    @functools.cached_property
    def _global(self) -> re.Pattern[bytes]:
        """Matches a notebook class or function in a pickle: after "__main__" up to protocol 3, later in its own string."""
        names = [
            re.escape(name.encode())
            for name, value in self._namespace.items()
            if isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__"
        ]
        one = b"|".join(names or [b"(?!)"])
        return re.compile(rb"c__main__\n(%b)[.\n]|\x8c.(%b)(?:\.|\x94?\x93)" % (one, one), re.DOTALL)

    def check(self) -> None:
        """Raise NotShippable if a part of a model was not packed, but its parameter was, for example with the optimizer."""
        held = {id(each) for model in self._modules.values() for _, each in _own(model, "_parameters")}
        self._parameters -= held  # tied weights, for example: a part that was packed has them too
        for model in self._modules.values():
            for name, parameter in self._cut_off(model):
                raise NotShippable(
                    f"A worker process needs a copy of {type(model).__name__}",
                    because=f"its __getstate__ or __reduce__ leaves out the module {name!r}, and something else, such as the "
                    f"optimizer, also holds {parameter!r}: the worker would have two copies of it",
                    do="Let __getstate__ return the module itself, not a pickle or a copy of it, or build the model and its "
                    "optimizer in the cell that trains.",
                )

    def _cut_off(self, model: Any) -> Iterator[tuple[str, str]]:
        """Parts of a model that were not seen, each with a parameter of it that was seen."""
        for name, part in _own(model, "_modules"):
            for own, parameter in _trained_in(part) if id(part) not in self._modules else ():
                if id(parameter) in self._parameters:
                    yield name, f"{name}.{own}"


def _trained_in(module: Any) -> Iterator[tuple[str, Any]]:
    yield from ((name, each) for name, each in _own(module, "_parameters") if each.requires_grad)
    for name, part in _own(module, "_modules"):
        yield from ((f"{name}.{own}", parameter) for own, parameter in _trained_in(part))


def _own(module: Any, kind: str) -> list[tuple[str, Any]]:
    """Its own parameters or modules by name; asks no method, which a class may have changed."""
    held = vars(module).get(kind)
    return [(name, each) for name, each in held.items() if each is not None] if isinstance(held, dict) else []
