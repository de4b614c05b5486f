"""Every optimizer of this process: one that a cell builds, or that nobody named, holds state as well.

To look for them among all objects takes as long as training steps do, and longer the more a notebook holds. So they are
looked for once, and those that are built later are noted as they are built, for as long as a plan is applied.
"""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from accel.hooks.attribute_patches import AttributePatches
from accel.workload.callers_line import at_callers_line
from accel.workload.namespace_reads import attributes_of

if TYPE_CHECKING:
    import torch


class _Watch:
    """Optimizers by id, while at least one plan is applied."""

    def __init__(self) -> None:
        self.plans = 0
        self.known: WeakValueDictionary[int, torch.optim.Optimizer] = WeakValueDictionary()
        self.has_looked = False
        self.patches = AttributePatches()

    def note(self, optimizer: Any) -> None:
        self.known[id(optimizer)] = optimizer


_watch = _Watch()


def live_optimizers() -> list[torch.optim.Optimizer]:
    """Every optimizer that exists now.

    >>> live_optimizers()
    [SGD (…)]
    """
    if not _watch.plans:
        return _looked_for()
    if not _watch.has_looked:
        for optimizer in _looked_for():
            _watch.note(optimizer)
        _watch.has_looked = True
    found = (reference() for reference in _watch.known.valuerefs())
    return [optimizer for optimizer in found if optimizer is not None and _is_whole(optimizer)]


def state_of(optimizer: torch.optim.Optimizer) -> dict[Any, dict[str, Any]]:
    """The optimizer's state by parameter, read without running code of its class: another training's optimizer may raise.

    >>> state_of(optimizer)[parameter]["momentum_buffer"]
    """
    state: dict[Any, dict[str, Any]] = attributes_of(optimizer)["state"]
    return state


@contextmanager
def noted_optimizers() -> Iterator[None]:
    """Note each optimizer that is built, unpickled or copied until the last of these contexts ends."""
    if not _watch.plans:
        _begin()
    _watch.plans += 1
    try:
        yield
    finally:
        _watch.plans -= 1
        if not _watch.plans:
            _watch.patches.take_back()
            _watch.known.clear()
            _watch.has_looked = False


def _begin() -> None:
    from torch.optim import Optimizer

    for name in ("__init__", "__setstate__"):
        _watch.patches.add(Optimizer, name, _noting(at_callers_line(getattr(Optimizer, name))))


def _noting(original: Any) -> Any:
    @functools.wraps(original)
    def call(optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        _watch.note(optimizer)
        return original(optimizer, *args, **kwargs)

    return call


def _looked_for() -> list[torch.optim.Optimizer]:
    """What refers to a class of optimizers and is an instance of one: a search in C, object by object."""
    from torch.optim import Optimizer

    found = (
        each for each in gc.get_referrers(*_with_subclasses(Optimizer)) if issubclass(type(each), Optimizer)
    )
    return [each for each in found if _is_whole(each)]


def _is_whole(optimizer: torch.optim.Optimizer) -> bool:
    """False if the constructor raised and only the last traceback keeps the optimizer alive."""
    return {"state", "param_groups"} <= attributes_of(optimizer).keys()


def _with_subclasses(kind: type) -> set[type]:
    found, waiting = {kind}, [kind]
    while waiting:
        below: set[type] = set(type.__subclasses__(waiting.pop())) - found
        found |= below
        waiting += below
    return found
