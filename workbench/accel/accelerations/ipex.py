"""Intel's extension of torch, which ended with torch 2.8."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Proof
from accel.accelerations.autocast import Autocast
from accel.accelerations.started import Started
from accel.environments.environment import Environment
from accel.environments.wanted import environment_with, no_environment
from accel.errors import AccelError, Reason
from accel.processes.start import Start
from accel.techniques.model.model_call import Call, distinct, find_wrapper, wrapped_call
from accel.techniques.source.user_names import nothing_seen

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload

PACKAGE, RECIPE = "intel-extension-for-pytorch", "intel"
WATCHED_CALL = 2  # of the model: the first ones set up what later ones use


@dataclass(frozen=True)
class Ipex(Started):
    """Let Intel's extension of torch take over the model's layers and the optimizer's update. Its development has ended.

    What it does
        A trial starts the worker with torch 2.8 and the extension, and calls `ipex.optimize` on the model and its optimizer
        (`by="optimizer"`), or compiles the model with its backend (`by="compile"`). With "bf16", weights are kept in bfloat16
        beside a float32 copy, and the model's call is under autocast.
    When it helps
        To see what it brought. On a two-core EPYC, course CNN: ×1.6 in float32, where channels_last alone gave as much, and
        ×2.3 in bfloat16; compile_model with autocast gave ×2.7 on the same torch.
    When it hurts
        Intel ended it in 2025 with version 2.8 and recommends torch itself, which has taken up what it did. It needs that torch.
        Importing it changes operations, autocast rules and methods of the whole process, which nothing undoes: it runs in
        processes of a trial only.
    In plain PyTorch
        model, optimizer = ipex.optimize(model, optimizer=optimizer, dtype=torch.bfloat16)
    References
        https://github.com/intel/intel-extension-for-pytorch/issues/867
        https://intel.github.io/intel-extension-for-pytorch/
    """

    dtype: Literal["fp32", "bf16"] = "fp32"
    by: Literal["optimizer", "compile"] = "optimizer"

    name: ClassVar[str] = "ipex"
    distributions: ClassVar[tuple[str, ...]] = (PACKAGE,)
    effect: ClassVar[Effect] = "close"
    conflicts: ClassVar[tuple[str, ...]] = (
        "torch_version", "autocast", "compile_model", "fused_optimizer", "compile_optimizer", "prune", "ddp",
    )  # fmt: skip

    @property
    def environment(self) -> Environment | None:
        """One that has the extension."""
        return environment_with(PACKAGE)

    def start(self) -> Start:
        """With that environment's Python."""
        return Start() if self.environment is None else self.environment.start

    @property
    def lines(self) -> str:  # type: ignore[override]
        """The call of the extension."""
        if self.by == "compile":
            return 'import intel_extension_for_pytorch; model.compile(backend="ipex")'
        dtype = "bfloat16" if self.dtype == "bf16" else "float32"
        return (
            "import intel_extension_for_pytorch as ipex; "
            f"model, optimizer = ipex.optimize(model.train(), optimizer=optimizer, dtype=torch.{dtype})"
        )

    def missing(self) -> list[Reason]:
        """An environment with the extension."""
        return [] if self.environment else [no_environment("Intel's extension", RECIPE)]

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No model, no environment, no instructions for bfloat16, an optimizer of several models or a model of several."""
        replica = workload.objects()
        reasons = [*nothing_seen(workload, "models"), *self.missing()]
        if replica.device_type != "cpu":
            reasons.append(
                Reason(
                    "The model is not on the CPU, which is what this is for",
                    "Use autocast and compile_model.",
                )
            )
        if self.dtype == "bf16" and not machine.has_cpu_bf16:
            reasons.append(
                Reason(
                    f"{machine.cpu_model} has no bfloat16 instructions (avx512_bf16, AMX)",
                    'Write dtype="fp32".',
                )
            )
        owners = [_models_of(each, replica) for _, each in distinct(replica.optimizers)]
        shared = sum(len(each) for each in owners) > len({id(model) for each in owners for model in each})
        if self.by == "optimizer" and (shared or any(len(each) > 1 for each in owners)):
            reasons.append(
                Reason(
                    "ipex.optimize takes one model with its one optimizer, and here are more",
                    'Write by="compile".',
                )
            )
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Hand models and optimizers to the extension. It has no undo: the process ends with the trial."""
        import intel_extension_for_pytorch as extension
        import torch

        dtype = torch.bfloat16 if self.dtype == "bf16" else torch.float32
        with ExitStack() as stack:
            for _, model in distinct(replica.models):
                if not any(parameter.requires_grad for parameter in model.parameters()):
                    continue
                if self.by == "compile":
                    stack.enter_context(_compiled(model))
                else:
                    _optimize(extension, model, replica, dtype)
                stack.enter_context(wrapped_call(model, _WatchedCall))
            if self.dtype == "bf16":
                stack.enter_context(Autocast(dtype="bf16").apply(replica))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """The operations that it put in the model's and the optimizer's place, counted in a step; its import alone has others."""
        calls = [find_wrapper(model, _WatchedCall) for _, model in distinct(replica.models)]
        counts = [call.operations for call in calls if call is not None]
        found = sorted({name for each in counts for name in each})
        if not counts or not all(counts):
            return Proof(False, "a model's call had no layer of the extension")
        kept = {str(each.dtype) for _, model in distinct(replica.models) for each in model.parameters()}
        if self.dtype == "bf16" and self.by == "optimizer" and "torch.bfloat16" not in kept:
            return Proof(False, "no weight is kept in bfloat16")
        total = sum(count for each in counts for count in each.values())
        return Proof(True, f"{total} layers of the extension in a call: {', '.join(found[:3])}")


OF_ITS_LAYERS = (
    "convolution_forward",
    "ipex_linear",
    "linear_forward",
    "ipexconvolution",
    "ipexlinear",
    "ipex_lstm",
)


def _optimize(extension: Any, model: torch.nn.Module, replica: Replica, dtype: torch.dtype) -> None:
    """In training mode, which it asks for; each part of the model is left in the mode it was in."""
    import torch

    own = [each for _, each in distinct(replica.optimizers) if model in _models_of(each, replica)]
    if not own:
        raise AccelError(
            "ipex of a model that the cell builds",
            because="it takes a model together with its optimizer, and they are met apart",
            do='Build both in a cell before, or write ipex(by="compile").',
        )  # fmt: skip
    modes = {name: part.training for name, part in model.named_modules()}
    extension.optimize(model.train(), optimizer=own[0], dtype=dtype, inplace=True)
    for name, part in model.named_modules():
        part.training = modes.get(name, part.training)
    if (
        update := vars(own[0]).get("step")
    ) is not None:  # the extension's own, which no hook of torch's would hear of
        hooked = torch.optim.Optimizer.profile_hook_step(update.__func__)
        own[0].step = MethodType(hooked, own[0])  # type: ignore[method-assign]


@contextmanager
def _compiled(model: torch.nn.Module) -> Iterator[None]:
    import torch

    with wrapped_call(model, lambda inner: torch.compile(inner, backend="ipex")):
        yield


def _models_of(optimizer: torch.optim.Optimizer, replica: Replica) -> list[torch.nn.Module]:
    """The models whose parameters it updates."""
    own = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return [
        model for _, model in distinct(replica.models) if any(id(each) in own for each in model.parameters())
    ]


class _WatchedCall:
    """Looks into one call of the model for operations of the extension."""

    def __init__(self, inner: Call) -> None:
        self.inner, self.calls = inner, 0
        self.operations: dict[str, int] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.calls += 1
        if self.calls != WATCHED_CALL:
            return self.inner(*args, **kwargs)
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU]) as seen:
            output = self.inner(*args, **kwargs)
        self.operations = {row.key: row.count for row in seen.key_averages() if _is_layer(row.key)}
        return output


def _is_layer(name: str) -> bool:
    name = name.lower()
    return "ipex" in name and any(each in name for each in OF_ITS_LAYERS)
