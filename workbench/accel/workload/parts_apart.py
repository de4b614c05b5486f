"""Objects that pickle a part of themselves by a pickler of their own, as skorch's nets do.

Such a part names the notebook's classes and functions, which have to be there when it is unpickled; and it shares nothing with
what else is packed: an optimizer outside goes on with copies of the parameters inside.
"""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from typing import Any

from accel.errors import NotShippable

# How a pickle names a class or function: by protocols up to 3, and by later ones, which say the module before.
_GLOBAL = re.compile(rb"c__main__\n([^\n]+)\n|\x8c.([^\x93\x94]{1,255}?)\x94?\x93", re.DOTALL)


def is_definition(value: object) -> bool:
    """Whether it is a class or a function of the notebook."""
    return isinstance(value, (type, types.FunctionType)) and value.__module__ == "__main__"


class PartsApart:
    """Sees each object that is packed, and knows afterwards what the parts apart name and what they cut off.

    >>> parts = PartsApart(namespace)
    >>> dump(contents, memory, see=parts.see)
    >>> parts.check()
    """

    def __init__(self, namespace: dict[str, Any]) -> None:
        import torch

        self.named: dict[
            str, Any
        ] = {}  # the notebook's classes and functions that a pickle in a bytes object names
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
        for match in _GLOBAL.finditer(pickled):
            name = (match[1] or match[2]).decode(errors="replace").partition(".")[0]
            if is_definition(value := self._namespace.get(name)):
                self.named[name] = value

    def check(self) -> None:
        """Raise NotShippable if a part of a model was left to another pickler, but not the parameters that it trains."""
        for model in self._modules.values():
            for name, parameter in self._cut_off(model):
                raise NotShippable(
                    f"A worker process needs a copy of {type(model).__name__}",
                    because=f"that class pickles {name!r} separately (in __getstate__ or __reduce__), so whatever else holds "
                    f"{parameter!r}, such as the optimizer, would get another copy of it",
                    do="Let __getstate__ return the module itself, not a pickle or a copy of it, or build the model and its "
                    "optimizer in the cell that trains.",
                )

    def _cut_off(self, model: Any) -> Iterator[tuple[str, str]]:
        """Parts of a model that were not seen, each with one of its parameters that was."""
        parts = vars(model).get("_modules")
        for name, part in parts.items() if isinstance(parts, dict) else ():
            for own, parameter in _trained_in(part) if id(part) not in self._modules else ():
                if id(parameter) in self._parameters:
                    yield name, f"{name}.{own}"


def _trained_in(module: Any) -> Iterator[tuple[str, Any]]:
    """Its parameters that have gradients; asks no method, which a class may have changed."""
    held = vars(module) if module is not None else {}
    for name, parameter in dict(held.get("_parameters") or {}).items():
        if parameter is not None and parameter.requires_grad:
            yield name, parameter
    for name, part in dict(held.get("_modules") or {}).items():
        yield from ((f"{name}.{own}", parameter) for own, parameter in _trained_in(part))
