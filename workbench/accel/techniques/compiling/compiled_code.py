"""Functions compiled by torch.compile for one object: kept as long as that object lives, and watched while they run."""

from __future__ import annotations

import inspect
import itertools
import types
import weakref
from collections.abc import Callable, Hashable, Iterable
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

        self.options = options
        self._call: Callable[..., Any] = torch.compile(function, **options.arguments)
        self.graphs = self.refused = self.in_python = 0
        self._skips_before = _cuda_graph_skips()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        graphs, refused = _graphs_and_refusals()
        in_python = _ran_in_python[0]
        try:
            return self._call(*args, **kwargs)
        finally:
            self.in_python += _ran_in_python[0] - in_python
            graphs_now, refused_now = _graphs_and_refusals()
            self.graphs += max(0, graphs_now - graphs)
            self.refused += max(0, refused_now - refused)

    @property
    def cuda_graph_skips(self) -> int:
        """How often torch left a CUDA graph out since this was made: backward compiles after the call is over."""
        return max(0, _cuda_graph_skips() - self._skips_before)


def without_cuda_graphs(codes: Iterable[Compiled], mode: str, device: str) -> str:
    """What to say where a mode means CUDA graphs and torch left some out; empty when there is nothing to say."""
    skips = max(code.cuda_graph_skips for code in codes)
    if device != "cuda" or mode != "reduce-overhead" or not skips:
        return ""
    return f"compiled, but torch left {skips} CUDA graphs out: TORCH_LOGS=cudagraphs says why"


_ran_in_python = [0]


def note_if_in_python() -> None:
    """For the first line of a function to be compiled: counts the times when torch ran it in Python after all.

    In a graph the branch is gone, on whatever backend, with or without gradients.
    """
    import torch

    if not torch.compiler.is_compiling():
        _ran_in_python[0] += 1


def compiled_for(
    owner: object, function: Callable[..., Any], options: CompileOptions, *, kind: Hashable = ""
) -> Compiled:
    """The function compiled with these options for this object: always the same one, so that nothing compiles twice.

    `kind` tells apart what is compiled separately for one object. The function must not hold the object.
    """
    of_owner = _OF_OWNER.setdefault(owner, {})
    key = (function.__name__, options, kind)
    if key not in of_owner:
        of_owner[key] = Compiled(_with_code_of_its_own(function, type(owner)), options)
    return of_owner[key]


_OF_OWNER: weakref.WeakKeyDictionary[object, dict[Hashable, Compiled]] = weakref.WeakKeyDictionary()
_NUMBERS = itertools.count()


def _with_code_of_its_own(function: Callable[..., Any], kind: type) -> Callable[..., Any]:
    """torch keeps graphs, their limit (8) and what it takes for a varying shape by the code's name, and those of one object
    must not be another's. What it says of recompilations names the object's class and, if that is not torch's, its `forward`.
    """
    assert isinstance(function, types.FunctionType)
    forward = getattr(inspect.unwrap(getattr(kind, "forward", function)), "__code__", function.__code__)
    place = function.__code__ if kind.__module__.partition(".")[0] == "torch" else forward
    code = function.__code__.replace(
        co_name=f"{kind.__name__}_{next(_NUMBERS)}",
        co_filename=place.co_filename,
        co_firstlineno=place.co_firstlineno,
    )
    return types.FunctionType(code, function.__globals__)


def _cuda_graph_skips() -> int:
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["cudagraph_skips"])


def _graphs_and_refusals() -> tuple[int, int]:
    """Graphs that torch compiled in this process so far, and functions that it gave up on and left to eager."""
    from torch._dynamo.utils import counters

    frames = counters["frames"]
    return counters["stats"]["unique_graphs"], frames["total"] - frames["ok"]
