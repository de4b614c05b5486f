"""Values that can be written without pickling anybody's code: numbers, texts, tensors, arrays, and containers of these."""

from __future__ import annotations

import collections
import copy
from typing import Any

SCALARS = (str, bytes, int, float, complex, bool, type(None))
_CONTAINERS: dict[type, Any] = {
    list: list, tuple: tuple, set: set, dict: dict, collections.OrderedDict: dict, collections.defaultdict: dict,
    collections.Counter: collections.Counter, collections.deque: list,
}  # fmt: skip
_ARRAY = "numpy array"


def is_plain(value: Any) -> bool:
    """Whether `plain_copy` can copy it.

    >>> is_plain({"losses": [0.5, torch.tensor(0.4)]}), is_plain([print])
    (True, False)
    """
    import torch

    if type(value) in SCALARS or isinstance(value, (torch.Tensor, torch.dtype, torch.device, torch.Size)):
        return True
    if type(value) in _CONTAINERS:
        if isinstance(value, dict):
            return all(is_plain(key) and is_plain(part) for key, part in value.items())
        return all(is_plain(part) for part in value)
    return _is_numbers(value)


def plain_copy(value: Any) -> Any:
    """The same on the CPU, sharing nothing with it; raises ValueError for what is not plain."""
    import torch

    if type(value) in SCALARS or isinstance(value, (torch.dtype, torch.device, torch.Size)):
        return value
    if isinstance(value, torch.Tensor):
        tensor = value.detach()
        return tensor.cpu() if tensor.device.type != "cpu" else tensor.clone()
    kind = _CONTAINERS.get(type(value))
    if kind is not None:
        if isinstance(value, dict):
            return kind({plain_copy(key): plain_copy(part) for key, part in value.items()})
        return kind([plain_copy(part) for part in value])
    if not _is_numbers(value):
        raise ValueError(f"a {type(value).__name__} is not made of numbers and tensors")
    if value.ndim == 0:
        return value.item()
    array = value.copy(order="C")  # as bytes, for torch does not write every type of number
    return {
        _ARRAY: array.dtype.str,
        "shape": array.shape,
        "bytes": torch.from_numpy(array.reshape(-1).view("u1")),
    }


def as_it_was(value: Any) -> Any:
    """What `plain_copy` was given, a copy of its own: arrays are arrays again.

    >>> as_it_was(plain_copy(numpy.arange(3)))
    array([0, 1, 2])
    """
    import torch

    if isinstance(value, torch.Tensor):
        return value.clone()
    if isinstance(value, dict) and _ARRAY in value:
        return value["bytes"].clone().numpy().view(value[_ARRAY]).reshape(value["shape"])
    if type(value) in (list, tuple, dict):
        if isinstance(value, dict):
            return {key: as_it_was(part) for key, part in value.items()}
        return type(value)(as_it_was(part) for part in value)
    return copy.copy(value)


def merged(mine: Any, theirs: Any) -> Any:
    """The value `theirs` in the objects of `mine`, as far as there are any of the same kind: names that share them go on to.

    >>> history = {"loss": [0.9]}; losses = history["loss"]
    >>> merged(history, {"loss": [0.9, 0.5]}) is history, losses
    (True, [0.9, 0.5])
    """
    import torch

    if isinstance(theirs, torch.Tensor) and isinstance(mine, torch.Tensor):
        if mine.is_leaf and mine.shape == theirs.shape and mine.dtype == theirs.dtype:
            with torch.no_grad():
                mine.copy_(theirs)
            return mine
        return theirs.to(mine.device, copy=True)
    if isinstance(theirs, list) and isinstance(mine, (list, collections.deque)):
        parts = [
            merged(mine[at], part) if at < len(mine) else as_it_was(part) for at, part in enumerate(theirs)
        ]
        mine.clear()
        mine.extend(parts)
        return mine
    if isinstance(theirs, dict) and isinstance(mine, dict) and _ARRAY not in theirs:
        new = {
            key: merged(mine[key], part) if key in mine else as_it_was(part) for key, part in theirs.items()
        }
        mine.clear()
        mine.update(new)
        return mine
    if isinstance(theirs, tuple) and isinstance(mine, tuple) and len(theirs) == len(mine):
        parts = [merged(a, b) for a, b in zip(mine, theirs, strict=True)]
        return mine if all(a is b for a, b in zip(mine, parts, strict=True)) else tuple(parts)
    if isinstance(theirs, set) and isinstance(mine, set):
        mine.clear()
        mine.update(theirs)
        return mine
    return as_it_was(theirs)


def is_of_notebook(value: Any) -> bool:
    """Whether its class was made in the notebook: its plain attributes are the user's own state."""
    return type(value).__module__ == "__main__" and hasattr(value, "__dict__") and not isinstance(value, type)


def has_state(value: Any) -> bool:
    """Optimizers, schedulers, scalers, averages, models: what gives its state and takes it back."""
    return not isinstance(value, type) and hasattr(value, "state_dict") and hasattr(value, "load_state_dict")


def _is_numbers(value: Any) -> bool:
    """Whether it is a numpy array or number that torch can hold."""
    kind = type(value)
    if kind.__module__ != "numpy" or not hasattr(value, "dtype"):
        return False
    return value.dtype.kind in "biufc" and value.dtype.isnative
