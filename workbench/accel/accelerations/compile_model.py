"""Compiled code for the model, in place of one call per operation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.compiling.compile_backends import why_not_options
from accel.techniques.compiling.compiled_code import (
    Compiled,
    CompileOptions,
    compiled_for,
    note_if_in_python,
    without_cuda_graphs,
)
from accel.techniques.compiling.compiled_step import (
    compiled_step,
    compiled_step_code,
    found_step,
    is_fused,
    why_not_step,
)
from accel.techniques.model.model_call import (
    distinct,
    find_wrapper,
    is_compiled_by_user,
    why_never_called,
    why_not_inside,
    wrapped_call,
)
from accel.techniques.model.repeated_blocks import repeated_blocks
from accel.techniques.source.user_names import names_of, nothing_seen
from accel.units import counted

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload


_WITH_CUDA_GRAPHS = ("reduce-overhead", "max-autotune")
_CLONING = "triton.cudagraph_trees_generation_cloning"


@dataclass(frozen=True)
class CompileModel:
    """Let torch.compile fuse the model's small operations into kernels of its own.

    What it does
        Compiles each model's call, in place as `model.compile()` does: class, identity and state_dict keys stay.
        The first step compiles; the compiled code is kept, so that switching it off and on again does not compile
        anew. scope="regions" compiles the blocks that a model repeats instead, each kind once for all its blocks,
        and leaves the rest as it is. scope="step" compiles the criterion (where it is a module) and
        `optimizer.step` as well, each by itself. backend is any that `%accel backends` lists; mode belongs to the
        default one, TorchInductor. dynamic=True compiles for any size at once, False for each size anew; None
        begins with the size that it sees, and generalises when another one comes.
    When it helps
        Models of many small operations between the large ones, and GPUs, where each operation costs a launch.
        "regions" where compiling takes too long: transformers and other models of equal blocks.
    When it hurts
        The first step takes seconds to minutes (DenseNet121: 223 s, and 7 s from the cache on disk; a trial says
        after how many steps that is earned back); "max-autotune" takes longer still. Other shapes of input compile
        again: a smaller last batch, or one of size 1, which is always compiled by itself; after 8 times torch gives
        up and runs that function as before. On CPUs the result is often slower: the course CNN, batch 64, on one
        core of an EPYC ran at ×0.62 [0.62, 0.63] of its speed, in the other modes at ×0.60 and ×0.61; DenseNet121
        came out undecided at ×1.08 [0.87, 1.18]. A model with `if` on tensor values breaks into several graphs, and
        with fullgraph=True that is an error. Differences of about 1e-7. "regions" fuses nothing across blocks.
        "regions" and "step" are not measured here yet. "reduce-overhead" and "max-autotune" use CUDA graphs on a GPU,
        which write each step's results where those of the last were: losses or logits that a cell keeps without reading
        them are saved by copies, under torch before 2.14 reading them later is an error ("overwritten"). No GPU was at
        hand to run that.
    In plain PyTorch
        model.compile(mode="default")
        for block in model.layers: block.compile()
    References
        https://docs.pytorch.org/docs/stable/generated/torch.compile.html
        https://docs.pytorch.org/tutorials/recipes/regional_compilation.html
        https://github.com/pytorch/pytorch/issues/97783 (a first epoch of recompilations)
    """

    mode: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] = "default"
    backend: str = "inductor"
    dynamic: bool | None = None
    fullgraph: bool = False
    scope: Literal["model", "regions", "step"] = "model"

    name: ClassVar[str] = "compile_model"
    layer: ClassVar[Layer] = "compile"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    @property
    def changes(self) -> tuple[str, ...]:
        """The kinds of objects that it changes."""
        return ("models", "criteria", "optimizers") if self.scope == "step" else ("models",)

    @property
    def options(self) -> CompileOptions:
        """What torch.compile is given."""
        return CompileOptions(self.mode, self.backend, self.dynamic, self.fullgraph)

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """Nothing to compile with, compiling switched off, or what is compiled already or cannot be."""
        import torch

        replica = workload.objects()
        if unseen := nothing_seen(workload, "models"):
            return unseen
        reasons = why_not_options(self.options, machine, replica.device_type)
        for name, model in distinct(replica.models):
            if is_compiled_by_user(model):
                reasons.append(
                    Reason(
                        f"{name} is compiled already",
                        "Take your own torch.compile out to compare, or leave this off.",
                    )
                )
            if isinstance(model, torch.jit.ScriptModule):
                reasons.append(
                    Reason(
                        f"{name} is a TorchScript module, which torch.compile cannot take",
                        "Use the module it was made from.",
                    )
                )
            if self.scope != "regions":
                reasons += why_never_called(name, workload)
            if self.scope == "regions":
                reasons += why_not_inside(name, model)
            if self.scope == "regions" and not repeated_blocks(model):
                reasons.append(
                    Reason(
                        f"{name} repeats no block alike in a ModuleList or Sequential, so there is no region to compile once",
                        'Use scope="model".',
                    )
                )
        if self.scope == "step":
            for name, optimizer in distinct(replica.optimizers):
                reasons += [] if is_fused(optimizer) else why_not_step(name, optimizer)
        return reasons

    def other_settings(self, machine: Machine) -> tuple[CompileModel, ...]:
        """The other scopes; on a GPU a mode with CUDA graphs too."""
        scopes: tuple[Literal["model", "regions", "step"], ...] = ("model", "regions", "step")
        others = [replace(self, scope=scope) for scope in scopes if scope != self.scope]
        return (*others, replace(self, mode="reduce-overhead")) if machine.gpus else tuple(others)

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Put compiled calls in place of the plain ones."""
        with ExitStack() as stack:
            if self._results_would_be_overwritten(replica.device_type):
                import torch._inductor

                stack.enter_context(torch._inductor.config.patch({_CLONING: "user_visible"}))
            for _, model in distinct(replica.models):
                for part, compiled in self._parts(model):
                    stack.enter_context(
                        wrapped_call(part, partial(_CompiledCall, model=part, compiled=compiled))
                    )
            if self.scope == "step":
                for _, criterion in distinct(replica.criteria):
                    compiled = compiled_for(criterion, _call_model, self.options)
                    wrap = partial(_CompiledCall, model=criterion, compiled=compiled)
                    stack.enter_context(wrapped_call(criterion, wrap))
                for name, optimizer in distinct(replica.optimizers):
                    if not why_not_step(name, optimizer):
                        stack.enter_context(compiled_step(optimizer, self.options))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether graphs were compiled for each part, and no call fell back to eager."""
        parts = [part for _, model in distinct(replica.models) for part, _ in self._parts(model)]
        if self.scope == "step":
            parts += [criterion for _, criterion in distinct(replica.criteria)]
        found = [find_wrapper(part, _CompiledCall) for part in parts]
        calls = [call for call in found if call is not None and call.calls]
        if not calls or len(calls) < len(found):
            return Proof(False, "a model's call did not go through the compiled code")
        codes = {id(call.compiled): call.compiled for call in calls}.values()
        refused = sum(code.refused for code in codes)
        if refused:
            return Proof(False, f"{counted(refused, 'function')} fell back to eager")
        if in_python := sum(call.in_python for call in calls):
            taken = sum(call.calls for call in calls)
            return Proof(
                False, f"{in_python} of {taken} results came from eager operations, not from compiled graphs"
            )
        if missing := without_cuda_graphs(codes, self.mode, replica.device_type):
            return Proof(False, missing)
        graphs = sum(code.graphs for code in codes)
        if self.scope == "step":
            optimizers = [each for _, each in distinct(replica.optimizers) if not is_fused(each)]
            steps = [found_step(optimizer) for optimizer in optimizers]
            if not all(step is not None and step.ran_compiled for step in steps):
                return Proof(False, "an optimizer's step ran in Python")
            graphs += sum(step.compiled.graphs for step in steps if step is not None)
        regions = (
            f"{len(parts)} blocks share {len(codes)} compiled codes; " if self.scope == "regions" else ""
        )
        return Proof(True, f"{regions}results came from compiled graphs; {graphs} compiled in this process")

    def as_code(self, workload: Workload) -> str:
        """`model.compile(…)`, or the same for its blocks; for a step, the criterion and `optimizer.step` too."""
        models = workload.objects().models
        given = self.options.written
        parts = []
        if self._results_would_be_overwritten(workload.objects().device_type):
            parts += [
                "from torch._inductor import config",
                "# Results that are kept from one step to the next would be overwritten by the next CUDA graph.",
                f'config.{_CLONING} = "user_visible"',
            ]
        for name in names_of(workload, "models"):
            if self.scope == "regions":
                parts += _regions_code(name, models.get(name), given)
            else:
                parts.append(f"{name}.compile({given})")
        if self.scope == "step":
            parts += [f"{name}.compile({given})" for name in names_of(workload, "criteria")]
            for name in names_of(workload, "optimizers"):
                optimizer = workload.objects().optimizers.get(name)
                if optimizer is None or not (is_fused(optimizer) or why_not_step(name, optimizer)):
                    parts += compiled_step_code(name, optimizer, self.options)
        return "\n".join(parts) + "\n"

    def _results_would_be_overwritten(self, device: str) -> bool:
        """Whether CUDA graphs are used, and this torch (from 2.14 on) can be told to save results that are kept."""
        if device != "cuda" or self.mode not in _WITH_CUDA_GRAPHS:
            return False
        import torch._inductor

        return hasattr(torch._inductor.config.triton, _CLONING.partition(".")[2])

    def _parts(self, model: torch.nn.Module) -> list[tuple[torch.nn.Module, Compiled]]:
        """The modules whose calls are compiled, each with the code it runs: blocks of one kind share theirs."""
        if self.scope != "regions":
            return [(model, compiled_for(model, _call_model, self.options))]
        return [
            (model.get_submodule(name), compiled_for(model, _call_model, self.options, kind=kind))
            for name, kind in repeated_blocks(model).items()
        ]


# A function of our own round the model's call: torch.compile passes over functions defined inside torch. On one line, which
# `compiled_for` shows as that of the model's class.
# fmt: off
def _call_model(model: torch.nn.Module, *args: Any, **kwargs: Any) -> Any: note_if_in_python(); return model._call_impl(*args, **kwargs)  # type: ignore[no-untyped-call]  # noqa: E501, E702
# fmt: on


@dataclass
class _CompiledCall:
    inner: Callable[..., Any]
    model: torch.nn.Module
    compiled: Compiled
    calls: int = 0
    in_python: int = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if torch.compiler.is_compiling():
            return self.inner(*args, **kwargs)
        in_python = self.compiled.in_python
        self.calls += 1
        output = self.compiled(self.model, *args, **kwargs)
        self.in_python += self.compiled.in_python - in_python
        return output


def _regions_code(name: str, model: torch.nn.Module | None, given: str) -> list[str]:
    """Statements that compile the same blocks; container by container where all that is in one is compiled."""
    if model is None:
        return [
            "import torch",
            f"for _blocks in [_m for _m in {name}.modules() if isinstance(_m, (torch.nn.ModuleList, torch.nn.Sequential))]:",
            "    for _block in _blocks:",
            "        if list(_block.children()):",
            f"            _block.compile({given})",
        ]
    blocks = repeated_blocks(model)
    limit = 2 * len(
        set(blocks.values())
    )  # a kind may need a graph for inputs with gradient and one for those without
    lines = []
    if limit > 8:
        lines += [
            "import torch",
            "# By default torch gives up on a class after 8 graphs, and these blocks are of more kinds than that.",
            f"torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, {limit})",
        ]
    containers: dict[str, list[str]] = {}
    for path in blocks:
        parent, _, child = path.rpartition(".")
        containers.setdefault(parent, []).append(child)
    for parent, children in containers.items():
        container = model.get_submodule(parent)
        all_children = [child for child, _ in container.named_children()]
        of_parent = f"{name}.{parent}" if parent else name
        if children == all_children and all(piece.isidentifier() for piece in parent.split(".") if piece):
            values = f"{of_parent}.values()" if type(container).__name__ == "ModuleDict" else of_parent
            lines += [f"for _block in {values}:", f"    _block.compile({given})"]
        else:
            paths = ", ".join(f'"{parent}.{child}"' if parent else f'"{child}"' for child in children)
            lines += [f"for _path in [{paths}]:", f"    {name}.get_submodule(_path).compile({given})"]
    return lines
