"""Which objects of a notebook share parts, so that a change of one changes the other; read from the objects."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any

from accel.workload.namespace_reads import LEAVES, parts_in_one_step

_MOST_PARTS = 20_000
_NO_PARTS = (*LEAVES, type, FunctionType, BuiltinFunctionType, MethodType)
_SEQUENCES = (list, tuple, set, frozenset)


class Parts:
    """The objects that a value holds, directly or through others; at most `_MOST_PARTS`.

    >>> Parts(list(model.parameters())).are_shared_with(Parts(model)), Parts(model(x)).are_shared_with(Parts(model))
    (True, False)
    """

    def __init__(self, value: object) -> None:
        self._key, self._own = _key(value), {_key(each) for each in _itself_or_elements(value)}
        self._all: dict[Hashable, object] = {}  # keeps the objects alive, so that no id is used again
        waiting = [value]
        while waiting and len(self._all) < _MOST_PARTS:
            current = waiting.pop()
            key = _key(current)
            if isinstance(current, _NO_PARTS) or key in self._all:
                continue
            self._all[key] = current
            if not isinstance(key, tuple):
                waiting += parts_in_one_step(current)
        self._numbers = {key for key in self._all if isinstance(key, tuple)}

    def are_shared_with(self, other: Parts) -> bool:
        """Whether one holds the other or an element of it (if it is a list), or both hold numbers of one tensor or array.

        Other objects that both hold, such as the same transform in two data sets, do not count.
        """
        holds_one = other._key in self._all or not self._own.isdisjoint(other._all)
        return holds_one or not self._numbers.isdisjoint(other._numbers)


def _itself_or_elements(value: object) -> Iterator[object]:
    if not isinstance(value, (tuple, frozenset)):
        yield value
    if isinstance(value, _SEQUENCES):
        yield from (
            each for each in parts_in_one_step(value) if not isinstance(each, (*_NO_PARTS, tuple, frozenset))
        )


def _key(value: Any) -> Hashable:
    """The id of a value; of a tensor or an array, the address of its memory."""
    import numpy as np
    import torch

    if isinstance(value, torch.Tensor):
        try:
            place = value.untyped_storage().data_ptr()
        except (RuntimeError, NotImplementedError):  # sparse, or without memory
            place = 0
        return ("memory", place) if place else id(value)
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        return ("memory", value.__array_interface__["data"][0]) if value.size else id(value)
    return id(value)
