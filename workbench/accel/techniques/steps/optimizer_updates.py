"""Which form an optimizer's updates really had: torch picks one in each step, by flags that anybody may change."""

from __future__ import annotations

import inspect
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

from accel.hooks.attribute_patches import AttributePatches

if TYPE_CHECKING:
    import torch

Form = Literal["fused", "foreach", "one by one"]
_FUNCTIONS: dict[Form, str] = {"fused": "_fused", "foreach": "_multi_tensor", "one by one": "_single_tensor"}


@contextmanager
def watched_updates(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """While entered, it is counted in which form the optimizer's parameters are updated.

    >>> with watched_updates(optimizer):
    ...     optimizer.step()
    ...     updates_seen(optimizer)
    Counter({'fused': 1})

    One update is of a parameter group. torch's functions for it (`torch.optim.adam._fused_adam` …) are counted as they
    are called, and are torch's own again when no optimizer of that kind is watched any more.
    """
    if optimizer in _SEEN:
        yield
        return
    module = _module_of(optimizer)
    if all(_module_of(other) is not module for other in _SEEN):
        patches = _PATCHES[module] = AttributePatches()
        for form, name in _functions(module).items():
            patches.wrap(module, name, partial(partial, _counted, patches, form))
    _SEEN[optimizer] = Counter()
    try:
        yield
    finally:
        del _SEEN[optimizer]
        if all(_module_of(other) is not module for other in _SEEN):
            _PATCHES.pop(module).take_back()


def updates_seen(optimizer: torch.optim.Optimizer) -> Counter[Form]:
    """How many updates of each form were seen; none for an optimizer that is not watched."""
    return _SEEN.get(optimizer, Counter())


_SEEN: weakref.WeakKeyDictionary[torch.optim.Optimizer, Counter[Form]] = weakref.WeakKeyDictionary()
_PATCHES: dict[ModuleType, AttributePatches] = {}


def _counted(
    patches: AttributePatches, form: Form, update: Callable[..., Any], parameters: list[Any], *args: Any, **kwargs: Any
) -> Any:  # fmt: skip
    import torch

    if not torch.compiler.is_compiling() and patches.are_on and parameters:
        for optimizer, seen in _SEEN.items():
            if any(parameters[0] is p for group in optimizer.param_groups for p in group["params"]):
                seen[form] += 1
    return update(parameters, *args, **kwargs)


def _module_of(optimizer: torch.optim.Optimizer) -> ModuleType:
    """The module of torch.optim that has the class's step."""
    return sys.modules[inspect.unwrap(type(optimizer).step).__module__]


def _functions(module: ModuleType) -> dict[Form, str]:
    kind = module.__name__.rpartition(".")[2].lstrip("_")
    names = {form: f"{start}_{kind}" for form, start in _FUNCTIONS.items()}
    return {form: name for form, name in names.items() if hasattr(module, name)}
