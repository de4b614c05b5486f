"""TorchInductor's kernels for the model, in place of one call per operation."""

from __future__ import annotations

import itertools
import os
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.accelerations.autograd_nodes import nodes_behind
from accel.accelerations.model_call import (
    distinct,
    find_wrapper,
    is_compiled_by_user,
    plain_call,
    wrapped_call,
)
from accel.accelerations.user_names import names_of

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class CompileModel:
    """Let TorchInductor fuse the model's small operations into kernels of its own.

    What it does
        Compiles each model's call, in place as `model.compile()` does: class, identity and state_dict keys stay.
        The first step compiles; the compiled code is kept, so that switching it off and on again does not compile
        anew.
    When it helps
        Models of many small operations between the large ones, and GPUs, where each operation costs a launch.
    When it hurts
        The first step takes seconds to minutes (DenseNet121: 223 s, and 7 s from the cache on disk); other shapes
        of input compile again. On CPUs the result is often slower: the course CNN, batch 64, on one core of an EPYC
        ran at ×0.62 [0.62, 0.63] of its speed, in the other modes at ×0.60 and ×0.61; DenseNet121 came out
        undecided at ×1.08 [0.87, 1.18]. A model with `if` on tensor values breaks into several graphs. Differences
        of about 1e-7.
    In plain PyTorch
        model.compile(mode="default")
    References
        https://docs.pytorch.org/docs/stable/generated/torch.compile.html
        https://github.com/pytorch/pytorch/issues/97783 (a first epoch of recompilations)
    """

    mode: Literal["default", "reduce-overhead", "max-autotune"] = "default"

    name: ClassVar[str] = "compile_model"
    layer: ClassVar[Layer] = "compile"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[str]:
        """No compiler, no Python.h, compiling switched off, or a model that is compiled already."""
        import torch

        replica = workload.objects()
        if not replica.models and not names_of(workload, "models"):
            return ["No model was seen in the cell. Profile a cell that calls a torch.nn.Module."]
        reasons = []
        if replica.device_type == "cpu" and not machine.has_c_compiler:
            reasons.append(
                "torch.compile needs a C++ compiler, and none is on PATH. Install g++, or set CXX to one."
            )
        if replica.device_type == "cpu" and not machine.has_python_header:
            reasons.append(
                "The C++ that torch.compile writes includes Python.h, which is missing. Install it (apt install python3-dev)."
            )
        for variable in ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE"):
            if os.environ.get(variable, "0") == "1":
                reasons.append(
                    f"{variable}=1 in the environment switches torch.compile off. Unset it and restart the kernel."
                )
        for name, model in distinct(replica.models):
            if is_compiled_by_user(model):
                reasons.append(
                    f"{name} is compiled already. Take your own torch.compile out to compare, or leave this off."
                )
            if isinstance(model, torch.jit.ScriptModule):
                reasons.append(
                    f"{name} is a TorchScript module, which torch.compile cannot take. Use the module it was made from."
                )
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Put the compiled call in place of each model's call."""
        with ExitStack() as stack:
            for _, model in distinct(replica.models):
                wrap = partial(_CompiledCall, model=model, compiled=self._compiled(model))
                stack.enter_context(wrapped_call(model, wrap))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether graphs were compiled for each model, and no call fell back to eager."""
        calls = [find_wrapper(model, _CompiledCall) for _, model in distinct(replica.models)]
        if not calls or any(call is None or not call.calls for call in calls):
            return Proof(False, "a model's call did not go through the compiled code")
        refused = sum(call.compiled.refused for call in calls if call is not None)
        if refused:
            return Proof(False, f"{refused} function{'' if refused == 1 else 's'} fell back to eager")
        if not all(call.ran_compiled for call in calls if call is not None):
            return Proof(False, "the results came from eager operations, not from compiled graphs")
        graphs = _GRAPHS[self.mode]
        return Proof(True, f"results came from compiled graphs; {graphs} compiled in this process")

    def as_code(self, workload: Workload) -> str:
        """`model.compile()`, with the mode."""
        mode = "" if self.mode == "default" else f'mode="{self.mode}"'
        return "\n".join(f"{name}.compile({mode})" for name in names_of(workload, "models")) + "\n"

    def _compiled(self, model: torch.nn.Module) -> _Compiled:
        import torch

        of_model = _OF_MODEL.setdefault(model, {})
        if self.mode not in of_model:
            call = torch.compile(_call_of_its_own(), mode=self.mode)
            of_model[self.mode] = _Compiled(call, self.mode)
        return of_model[self.mode]


def _call_model(model: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    # A function of our own round the model's call: torch.compile passes over functions defined inside torch.
    return plain_call(model)(*args, **kwargs)


def _call_of_its_own() -> Callable[..., Any]:
    """`_call_model` with code of its own: torch keeps graphs, their limit (8) and what it takes for a varying shape by the
    code's name, and one model's must not be another's."""
    code = _call_model.__code__.replace(co_name=f"_call_model_{next(_NUMBERS)}")
    return types.FunctionType(code, globals())


@dataclass
class _Compiled:
    """A compiled call for one model, and how often compiling was refused for it, which torch does not repeat."""

    call: Callable[..., Any]
    mode: str
    refused: int = 0


# Kept as long as the model lives, so that taking a plan off and on again compiles nothing twice.
_OF_MODEL: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, _Compiled]] = weakref.WeakKeyDictionary()
_GRAPHS: Counter[str] = Counter()
_NUMBERS = itertools.count()


_CALLS_LOOKED_AT = 3  # looking walks the graph of the output; one training call is enough to see


@dataclass
class _CompiledCall:
    inner: Callable[..., Any]
    model: torch.nn.Module
    compiled: _Compiled
    calls: int = 0
    ran_compiled: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if torch.compiler.is_compiling():
            return self.inner(*args, **kwargs)
        graphs, refused = _graphs_and_refusals()
        try:
            output = self.compiled.call(self.model, *args, **kwargs)
        finally:
            graphs_now, refused_now = _graphs_and_refusals()
            _GRAPHS[self.compiled.mode] += max(0, graphs_now - graphs)
            self.compiled.refused += max(0, refused_now - refused)
            self.calls += 1
        if not self.ran_compiled and self.calls <= _CALLS_LOOKED_AT:
            self.ran_compiled = graphs_now > graphs or _came_from_a_graph(output)
        return output


def _came_from_a_graph(output: Any) -> bool:
    """Whether a compiled graph made the result: it then has one backward node for the whole graph."""
    return any("CompiledFunction" in node.name() for node in nodes_behind(output))


def _graphs_and_refusals() -> tuple[int, int]:
    """Graphs that torch compiled in this process so far, and functions that it gave up on and left to eager."""
    from torch._dynamo.utils import counters

    frames = counters["frames"]
    return counters["stats"]["unique_graphs"], frames["total"] - frames["ok"]
