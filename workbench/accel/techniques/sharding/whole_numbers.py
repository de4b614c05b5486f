"""Numbers read from a tensor that is spread over ranks: of the whole tensor, and not of this rank's part."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from accel.hooks.attribute_patches import AttributePatches

_READS = ("item", "tolist", "__float__", "__int__", "__bool__")
_entered = 0
_patches = AttributePatches()


@contextmanager
def whole_numbers() -> Iterator[None]:
    """While entered, `item()`, `tolist()`, `float()`, `int()` and `bool()` of a DTensor put it together first.

    torch gives what lies on this rank: a norm of its part of a gradient, and each rank would clip by another factor.
    All ranks have to read at the same place, for they wait for one another.

    >>> with whole_numbers():
    ...     total = sum(p.grad.pow(2).sum().item() for p in model.parameters())
    """
    global _entered
    from torch.distributed.tensor import DTensor

    if not _entered:
        for name in _READS:
            _patches.wrap(DTensor, name, partial(_reading_whole, name))
    _entered += 1
    try:
        yield
    finally:
        _entered -= 1
        if not _entered:
            _patches.take_back()


def _reading_whole(name: str, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def read(tensor: Any) -> Any:
        if not _patches.are_on:  # something else still calls it after its time
            return original(tensor)
        return getattr(tensor.detach().full_tensor(), name)()

    read.__name__ = name
    return read
