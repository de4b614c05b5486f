"""Matrix products and convolutions in bfloat16: mixed precision round the model's call."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.accelerations.autograd_nodes import nodes_behind
from accel.accelerations.model_call import distinct, find_wrapper, wrapped_call
from accel.accelerations.user_names import class_name, names_of

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class Autocast:
    """Run the model's matrix products and convolutions in bfloat16, and hand its output back in float32.

    What it does
        Each call of the model runs under `torch.autocast`: products and convolutions take bfloat16 copies of
        weights and inputs, sums and normalisations stay in float32. Weights, gradients, optimizer and loss stay in
        float32.
    When it helps
        Where the hardware multiplies bfloat16: CPUs with avx512_bf16 or AMX, GPUs from Ampere on. Measured on one
        core of an EPYC with avx512_bf16, course CNN, batch 64, under a steady allocator: ×1.31 alone, ×2.06 with
        channels_last.
    When it hurts
        Where bfloat16 is emulated it is several times slower. Small models pay for the casts. Without channels_last
        the convolutions reorder their data: DenseNet121 on 32×32 images came out at ×0.79 [0.77, 1.14], undecided.
        bfloat16 keeps 8 bits of a number: on the course CNN the loss moved by up to 6e-4 in 10 steps. Calls of
        `model.forward(x)` or of a submodule do not pass through here. An output in a container that torch's pytree
        does not know stays bfloat16.
    In plain PyTorch
        with torch.autocast("cpu", dtype=torch.bfloat16):
            output = model(inputs)
        loss = criterion(output.float(), targets)
    References
        https://docs.pytorch.org/docs/stable/amp.html
        https://github.com/pytorch/pytorch/issues/118499 (a CPU epoch from 2.5 s to 231 s)
    """

    dtype: Literal["bf16"] = "bf16"

    name: ClassVar[str] = "autocast"
    layer: ClassVar[Layer] = "numerics"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[str]:
        """No model, no hardware for bfloat16, or mixed precision of the user's own already."""
        import torch

        replica = workload.objects()
        reasons = []
        if not replica.models and not names_of(workload, "models"):
            reasons.append("No model was seen in the cell. Profile a cell that calls a torch.nn.Module.")
        if replica.device_type == "cpu" and not machine.has_cpu_bf16:
            reasons.append(
                f"{machine.cpu_model} has no bfloat16 instructions (avx512_bf16, AMX), and emulated bfloat16 is "
                "slower than float32. Leave autocast off here, or train on a GPU."
            )
        if replica.device_type == "cuda" and not torch.cuda.is_bf16_supported(including_emulation=False):
            reasons.append(
                "This GPU has no bfloat16 arithmetic. Leave autocast off, or use a GPU from Ampere on."
            )
        if replica.scalers or _mentions_autocast(workload):
            reasons.append(
                "The cell has mixed precision of its own (torch.autocast or a GradScaler). "
                "Take that out to compare, or leave this off."
            )
        for name, model in distinct(replica.models):
            if "_orig_mod" in vars(model).get("_modules", {}):
                reasons.append(
                    f"{name} is wrapped by torch.compile(…), which hides its call. "
                    f"Write {name}.compile() instead, which keeps it."
                )
            if not any(p.dtype == torch.float32 for p in model.parameters()):
                reasons.append(
                    f"{name} has no float32 weights to spare. Leave autocast off, or keep the weights in float32."
                )
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Enter autocast round each model's call."""
        with ExitStack() as stack:
            for _, model in distinct(replica.models):
                wrap = partial(_AutocastCall, device_type=_device_type(model))
                stack.enter_context(wrapped_call(model, wrap))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether bfloat16 numbers were seen in the calls."""
        seen = [find_wrapper(model, _AutocastCall) for _, model in distinct(replica.models)]
        calls = [call for call in seen if call is not None and call.calls]
        if not calls or len(calls) < len(seen):
            return Proof(False, "a model's call did not go through autocast")
        if not all(call.bf16_seen for call in calls):
            return Proof(False, "the model's call made no bfloat16 number")
        return Proof(True, f"bfloat16 in {' and '.join(sorted({call.bf16_seen for call in calls}))}")

    def as_code(self, workload: Workload) -> str:
        """A subclass of the model's class whose call enters autocast: copies and `compile()` of the model work on."""
        models = workload.objects().models
        parts = ["import torch", "from torch.utils._pytree import tree_map", ""]
        for name in names_of(workload, "models"):
            made = class_name(name, "InBfloat16")
            device = _device_type(models[name]) if name in models else "cpu"
            parts += [
                f"class {made}(type({name})):",
                "    def __call__(self, *args, **kwargs):",
                f'        with torch.autocast("{device}", dtype=torch.bfloat16):',
                "            output = super().__call__(*args, **kwargs)",
                "        # The loss is computed in float32, so hand the output back in it.",
                "        is_bfloat16 = lambda t: torch.is_tensor(t) and t.dtype == torch.bfloat16",
                "        return tree_map(lambda t: t.float() if is_bfloat16(t) else t, output)",
                "",
                f"{name}.__class__ = {made}",
                "",
            ]
        return "\n".join(parts) + "\n"


_CALLS_LOOKED_AT = 3  # looking walks the whole graph of the output; one training call is enough to see


@dataclass
class _AutocastCall:
    inner: Callable[..., Any]
    device_type: str
    calls: int = 0
    bf16_seen: str = ""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch
        from torch.utils._pytree import tree_map

        with torch.autocast(self.device_type, dtype=torch.bfloat16):
            output = self.inner(*args, **kwargs)
        if not torch.compiler.is_compiling():
            self.calls += 1
            if not self.bf16_seen and self.calls <= _CALLS_LOOKED_AT:
                self.bf16_seen = _where_bf16(output)
        return tree_map(_back_to_float32, output)


def _device_type(model: torch.nn.Module) -> str:
    return next((parameter.device.type for parameter in model.parameters()), "cpu")


def _back_to_float32(value: Any) -> Any:
    import torch

    return value.float() if isinstance(value, torch.Tensor) and value.dtype == torch.bfloat16 else value


def _where_bf16(output: Any) -> str:
    """Where bfloat16 shows: in the output, or in the casts that its gradient goes back through."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    if any(tensor.dtype == torch.bfloat16 for tensor in tensors):
        return "the model's output before it was cast back"
    for node in nodes_behind(output):
        if any(meta.dtype == torch.bfloat16 for meta in getattr(node, "_input_metadata", ())):
            return "the operations before the model's last one"
    return ""


def _mentions_autocast(workload: Workload) -> bool:
    """Whether the cell, or a function of an earlier cell that it reads, names autocast."""
    if "autocast" in workload.source:
        return True
    waiting: list[Any] = [workload.namespace.get(name) for name in workload.reads]
    waiting = [value.__code__ for value in waiting if isinstance(value, types.FunctionType)]
    while waiting:
        code = waiting.pop()
        if "autocast" in code.co_names:
            return True
        waiting += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return False
