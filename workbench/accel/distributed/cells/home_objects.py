"""The objects that were shipped to the ranks, by the way that leads to them: one walk, here and there, with equal names."""

from __future__ import annotations

import collections
import types
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from accel.workload.whole_objects import hooks_of

Path = tuple[str, ...]
OF_OPTIMIZERS = {"state", "defaults", "step"}  # the state travels whole; `step` is what a scheduler wraps
_MOST_OBJECTS = 200_000
_MOST_ELEMENTS = 1_000  # of a container: a list of a million numbers holds nothing that has a name


def walk(namespace: Mapping[str, Any], names: Iterable[str]) -> Iterator[tuple[Path, Any]]:
    """(path, object) of what the names lead to, each object once: modules, tensors, optimizers, containers, functions, classes.

    >>> dict(walk({"model": model}, ["model"]))[("model", "fc", "weight")] is model.fc.weight
    True

    The walk depends on nothing but the shape of what it meets, so that a copy in another process gives equal paths. What has a
    name of its own is known by that, for other ways to it may lie in what an object leaves out when it is copied.
    """
    import torch

    waiting: list[tuple[Path, Any]] = []
    seen: dict[int, Any] = {}
    for name in names:
        if name in namespace and _has_identity(value := namespace[name]) and id(value) not in seen:
            seen[id(value)] = value
            yield (name,), value
            waiting += [((name, key), part) for key, part in _parts(value)]
    waiting.sort(
        key=lambda found: not isinstance(namespace[found[0][0]], torch.nn.Module)
    )  # a weight is a model's
    waiting.reverse()
    while waiting and len(seen) < _MOST_OBJECTS:
        path, value = waiting.pop()
        if id(value) in seen or not _has_identity(value):
            continue
        seen[id(value)] = value  # kept, so that its id stays its own
        yield path, value
        waiting.extend(reversed([((*path, key), part) for key, part in _parts(value)]))


class Home(dict[Path, Any]):
    """The objects of a walk by their paths; one that was met on another way is found by following its path.

    >>> Home(walk(namespace, names))[("model", "fc", "weight")]
    """

    def __missing__(self, path: Path) -> Any:
        if len(path) < 2:
            raise KeyError(path)
        return dict(_parts(self[path[:-1]]))[path[-1]]


def _has_identity(value: Any) -> bool:
    """Numbers, texts and modules are the same wherever they come from."""
    return not isinstance(
        value, (str, bytes, int, float, complex, bool, type(None), types.ModuleType, types.BuiltinFunctionType)
    )  # fmt: skip


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, type):
        return
    if isinstance(value, types.FunctionType):
        yield from _bound(value)
        return
    if isinstance(value, types.MethodType):
        yield "__self__", value.__self__
        return
    if type(value) is weakref.ref:
        yield "()", value()
        return
    if isinstance(value, dict):
        if len(value) <= _MOST_ELEMENTS:
            for position, (key, part) in enumerate(value.items()):
                has_name = isinstance(key, (str, int))
                if not has_name:
                    yield f"key {position}", key
                yield f"[{key!r}]" if has_name else f"[key {position}]", part
        return
    if isinstance(value, (list, tuple, collections.deque)):
        if len(value) <= _MOST_ELEMENTS:
            yield from ((f"[{position}]", part) for position, part in enumerate(value))
        return
    yield from _attributes(value)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    import torch

    if isinstance(value, torch.nn.Module):
        for kind in (value._parameters, value._buffers, value._modules):
            yield from ((name, part) for name, part in kind.items() if part is not None)
        skipped = {"_parameters", "_buffers", "_modules"}
        state = {name: part for name, part in vars(value).items() if name not in skipped}
    elif isinstance(value, torch.Tensor):
        state = hooks_of(value)
    else:
        try:
            state = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
    if isinstance(value, torch.optim.Optimizer):
        state = {name: part for name, part in state.items() if name not in OF_OPTIMIZERS}
    yield from ((name, part) for name, part in list(state.items()) if isinstance(name, str))


def _bound(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What a function that was made in another one, or in the notebook, holds of its surroundings."""
    if function.__module__ == "__main__" or "<locals>" in function.__qualname__:
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with suppress(ValueError):  # nothing was bound yet
                yield name, cell.cell_contents
