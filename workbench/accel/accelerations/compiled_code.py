"""Functions compiled by torch.compile for one object: kept as long as that object lives, and watched while they run."""

from __future__ import annotations

import itertools
import types
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CompileOptions:
    """What is given to torch.compile.

    >>> CompileOptions(mode="max-autotune", fullgraph=True).written
    'mode="max-autotune", fullgraph=True'
    """

    mode: str = "default"
    backend: str = "inductor"
    dynamic: bool | None = None
    fullgraph: bool = False

    @property
    def arguments(self) -> dict[str, Any]:
        """The keywords of torch.compile that differ from its defaults."""
        defaults = CompileOptions()
        return {name: value for name, value in vars(self).items() if value != getattr(defaults, name)}

    @property
    def written(self) -> str:
        """The same as a user writes it."""
        return ", ".join(
            f'{name}="{value}"' if isinstance(value, str) else f"{name}={value}"
            for name, value in self.arguments.items()
        )


class Compiled:
    """A compiled function, with how many graphs were made for it and how often compiling was refused.

    torch tells of a refusal only once: later calls just run in Python.
    """

    def __init__(self, function: Callable[..., Any], options: CompileOptions) -> None:
        import torch

        self._call: Callable[..., Any] = torch.compile(_with_code_of_its_own(function), **options.arguments)
        self.graphs = self.refused = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graphs, refused = _graphs_and_refusals()
        try:
            return self._call(*args, **kwargs)
        finally:
            graphs_now, refused_now = _graphs_and_refusals()
            self.graphs += max(0, graphs_now - graphs)
            self.refused += max(0, refused_now - refused)


def compiled_for(
    owner: object, function: Callable[..., Any], options: CompileOptions, *, kind: Hashable = ""
) -> Compiled:
    """The function compiled with these options for this object: always the same one, so that nothing compiles twice.

    `kind` tells apart what is compiled separately for one object. The function must not hold the object.
    """
    of_owner = _OF_OWNER.setdefault(owner, {})
    key = (function.__name__, options, kind)
    if key not in of_owner:
        of_owner[key] = Compiled(function, options)
    return of_owner[key]


_OF_OWNER: weakref.WeakKeyDictionary[object, dict[Hashable, Compiled]] = weakref.WeakKeyDictionary()
_NUMBERS = itertools.count()


def _with_code_of_its_own(function: Callable[..., Any]) -> Callable[..., Any]:
    """torch keeps graphs, their limit (8) and what it takes for a varying shape by the code's name, and those of one object
    must not be another's."""
    assert isinstance(function, types.FunctionType)
    code = function.__code__.replace(co_name=f"{function.__name__}_{next(_NUMBERS)}")
    return types.FunctionType(code, function.__globals__)


def _graphs_and_refusals() -> tuple[int, int]:
    """Graphs that torch compiled in this process so far, and functions that it gave up on and left to eager."""
    from torch._dynamo.utils import counters

    frames = counters["frames"]
    return counters["stats"]["unique_graphs"], frames["total"] - frames["ok"]
