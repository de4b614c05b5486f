"""Matrix products and convolutions in bfloat16 or float16: mixed precision round the model's call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.model.model_call import (
    distinct,
    find_wrapper,
    why_never_called,
    why_not_wrapped,
    wrapped_call,
)
from accel.techniques.numerics.autograd_nodes import FirstGraphs, is_compiled
from accel.techniques.source.user_names import class_name, names_of, nothing_seen
from accel.workload.names_used import names_used

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class Autocast:
    """Run the model's matrix products and convolutions in bfloat16 or float16, and hand its output back in float32.

    What it does
        Each call of the model runs under `torch.autocast`: products and convolutions take 16-bit copies of weights
        and inputs, sums and normalisations stay in float32. Weights, gradients, optimizer and loss stay in float32.
        With "fp16" the backward passes of the process run on gradients times a scale, as with a GradScaler, and are
        divided before `backward()` returns: a `clip_grad_norm_` in the cell, accumulation and several optimizers
        need no change. A step whose gradients overflowed is skipped; the proof counts them.
    When it helps
        Where the hardware multiplies the format. bfloat16: CPUs with avx512_bf16 or AMX, GPUs from Ampere on.
        float16: GPUs from Volta on (on a V100 or T4 it is the only one), CPUs with avx512_fp16. Measured with bfloat16
        on one core of an EPYC with avx512_bf16, course CNN, batch 64, under a steady allocator: ×1.31 alone, ×2.06
        with channels_last. On an H200, a transformer of 19 million weights with steps of 55 ms: ×2.45 in the notebook, ×2.57 in
        fresh processes. float16 is not measured here yet where the hardware has it.
    When it hurts
        Where the format is emulated it is several times slower: float16 ran at ×0.15 on that EPYC, which has none.
        Small models pay for the casts. Without channels_last the convolutions reorder their data: DenseNet121 on
        32×32 images came out at ×0.79 [0.77, 1.14], undecided. bfloat16 keeps 8 bits of a number: on the course CNN
        the loss moved by up to 6e-4 in 10 steps. float16 keeps 11, but nothing above 65504, and the look for
        overflow waits for the GPU once a backward pass; before it the CPU walks through the graph for the tensors
        to scale: 0.7 ms on one core of an EPYC for the 800 nodes of DenseNet121. What `torch.autograd.grad` returns
        is not scaled. Calls of `model.forward(x)` or of a submodule do not pass through here. An output in a
        container that torch's pytree does not know stays in 16 bits.
    In plain PyTorch
        with torch.autocast("cuda", dtype=torch.float16):        # or torch.bfloat16, without a scaler
            output = model(inputs)
        loss = criterion(output.float(), targets)
        scaler.scale(loss).backward()                            # scaler = torch.amp.GradScaler("cuda")
        scaler.unscale_(optimizer)                               # before gradients are clipped
        scaler.step(optimizer)
        scaler.update()
    References
        https://docs.pytorch.org/docs/stable/amp.html
        https://docs.pytorch.org/docs/stable/notes/amp_examples.html
        https://arxiv.org/abs/1710.03740 (Mixed Precision Training: loss scaling)
        https://github.com/pytorch/pytorch/issues/118499 (a CPU epoch from 2.5 s to 231 s)
    """

    dtype: Literal["bf16", "fp16"] = "bf16"

    name: ClassVar[str] = "autocast"
    layer: ClassVar[Layer] = "numerics"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No model, no hardware for the format, mixed precision of the user's own, gradients looked at on their way."""
        import torch

        replica, used = workload.objects(), names_used(workload)
        reasons = []
        reasons += nothing_seen(workload, "models")
        reasons += self._missing_hardware(replica.device_type, machine)
        if replica.scalers or "autocast" in used:
            reasons.append(
                Reason(
                    "The cell has mixed precision of its own (torch.autocast or a GradScaler)",
                    "Take that out to compare, or leave this off.",
                )
            )
        for name, model in distinct(replica.models):
            reasons += why_not_wrapped(name, model) or why_never_called(name, workload)
            if not any(p.dtype == torch.float32 for p in model.parameters()):
                reasons.append(
                    Reason(
                        f"{name} has no float32 weights to spare",
                        "Leave autocast off, or keep the weights in float32.",
                    )
                )
            if self.dtype == "fp16":
                reasons += _why_not_scaled(name, model)
        if self.dtype == "fp16" and (seeing := used & _SEE_SCALED_GRADIENTS):
            reasons.append(
                Reason(
                    f"The cell uses {min(seeing)}, which would see gradients times the loss scale of float16",
                    'Write dtype="bf16", which needs no scale, or take that out.',
                )
            )
        return reasons

    def _missing_hardware(self, device_type: str, machine: Machine) -> list[Reason]:
        import torch

        long, instructions, has_it = {
            "bf16": ("bfloat16", "avx512_bf16, AMX", machine.has_cpu_bf16),
            "fp16": ("float16", "avx512_fp16, AMX-FP16", machine.has_cpu_fp16),
        }[self.dtype]
        if device_type == "cpu" and not has_it:
            return [
                Reason(
                    f"{machine.cpu_model} has no {long} instructions ({instructions}), and emulated {long} is "
                    "slower than float32",
                    f'Leave autocast(dtype="{self.dtype}") off here, or train on a GPU.',
                )
            ]
        if device_type != "cuda":
            return []
        if self.dtype == "bf16" and not torch.cuda.is_bf16_supported(including_emulation=False):
            return [
                Reason(
                    "This GPU has no bfloat16 arithmetic", 'Write dtype="fp16", or use a GPU from Ampere on.'
                )
            ]
        if self.dtype == "fp16" and torch.version.hip is None and torch.cuda.get_device_capability() < (7, 0):
            return [
                Reason(
                    "This GPU has no fast float16 arithmetic",
                    "Leave autocast off, or use a GPU from Volta on.",
                )
            ]
        return []

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Enter autocast round each model's call; for float16 also scale what the process's backward passes compute."""
        with ExitStack() as stack:
            for _, model in distinct(replica.models):
                if self.dtype == "fp16":
                    from accel.techniques.numerics.loss_scaling import scaled_backward_passes

                    stack.enter_context(scaled_backward_passes())
                wrap = partial(_AutocastCall, device_type=_device_type(model), dtype_name=_DTYPES[self.dtype])
                stack.enter_context(wrapped_call(model, wrap))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether numbers of that format were seen in the calls, and for float16 whether losses were scaled."""
        wanted = _DTYPES[self.dtype]
        seen = [find_wrapper(model, _AutocastCall) for _, model in distinct(replica.models)]
        calls = [call for call in seen if call is not None and call.calls and call.dtype_name == wanted]
        if not calls or len(calls) < len(seen):
            return Proof(False, "a model's call did not go through autocast")
        if not all(call.seen_in for call in calls):
            return Proof(False, f"the model's call made no {wanted} number")
        evidence = f"{wanted} in {' and '.join(sorted({call.seen_in for call in calls}))}"
        return Proof(True, evidence) if self.dtype == "bf16" else _with_scaling(evidence)

    def as_code(self, workload: Workload) -> str:
        """A subclass of the model's class whose call enters autocast: copies and `compile()` of the model work on."""
        models, long = workload.objects().models, _DTYPES[self.dtype]
        parts = ["import torch", "from torch.utils._pytree import tree_map", ""]
        if self.dtype == "fp16":
            from accel.techniques.numerics.loss_scaling import loss_scaling_code

            parts = [loss_scaling_code(), *parts[1:]]
        for name in names_of(workload, "models"):
            made = class_name(name, f"In{long.title()}")
            device = _device_type(models[name]) if name in models else "cpu"
            parts += [
                f"class {made}(type({name})):",
                f"    is_in_{long} = True",
                "",
                "    def __call__(self, *args, **kwargs):",
                f'        with torch.autocast("{device}", dtype=torch.{long}):',
                "            output = super().__call__(*args, **kwargs)",
                "        # The loss is computed in float32, so hand the output back in it.",
                f"        is_{long} = lambda t: torch.is_tensor(t) and t.dtype == torch.{long}",
                f"        return tree_map(lambda t: t.float() if is_{long}(t) else t, output)",
                "",
                f'if not hasattr({name}, "is_in_{long}"):  # this cell may run again',
                f"    {name}.__class__ = {made}",
                "",
            ]
        return "\n".join(parts) + "\n"


_DTYPES = {"bf16": "bfloat16", "fp16": "float16"}


@dataclass
class _AutocastCall:
    inner: Callable[..., Any]
    device_type: str
    dtype_name: str
    calls: int = 0
    seen_in: str = ""
    first: FirstGraphs = field(default_factory=FirstGraphs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch
        from torch.utils._pytree import tree_map

        dtype: torch.dtype = getattr(torch, self.dtype_name)
        with torch.autocast(self.device_type, dtype=dtype):
            output = self.inner(*args, **kwargs)
        if not torch.compiler.is_compiling():
            self.calls += 1
            self.seen_in = self.seen_in or _where(dtype, output, self.first)
        return tree_map(lambda value: _back_to_float32(value, dtype), output)


def _device_type(model: torch.nn.Module) -> str:
    return next((parameter.device.type for parameter in model.parameters()), "cpu")


def _back_to_float32(value: Any, dtype: torch.dtype) -> Any:
    import torch

    return value.float() if isinstance(value, torch.Tensor) and value.dtype == dtype else value


def _where(dtype: torch.dtype, output: Any, first: FirstGraphs) -> str:
    """Where the format shows: in the output, in the casts that its gradient goes back through, or in what a compiled graph,
    which hides its casts, has kept for its backward."""
    import torch
    from torch.utils._pytree import tree_leaves

    tensors = [leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)]
    if any(tensor.dtype == dtype for tensor in tensors):
        return "the model's output before it was cast back"
    for node in first.nodes_behind(output):
        if any(meta.dtype == dtype for meta in getattr(node, "_input_metadata", ())):
            return "the operations before the model's last one"
        if is_compiled(node) and any(getattr(kept, "dtype", None) == dtype for kept in node.saved_tensors):
            return "what the compiled model keeps for its backward"
    return ""


# What gives a user's code gradients before `backward()` returns.
_SEE_SCALED_GRADIENTS = frozenset({"retain_grad", "register_hook", "register_full_backward_hook"})


def _why_not_scaled(name: str, model: torch.nn.Module) -> list[Reason]:
    """What would see or need gradients in the middle of a scaled backward pass."""
    from torch import nn

    reasons = []
    held = [p._backward_hooks for p in model.parameters()]
    held += [getattr(p, "_post_accumulate_grad_hooks", None) for p in model.parameters()]
    held += [module._backward_hooks for module in model.modules()]
    hooks = [hook for each in held if each for hook in each.values()]
    if any(not _is_ours(hook) for hook in hooks):
        reasons.append(
            Reason(
                f"{name} has gradient hooks, which would see gradients times the loss scale of float16",
                'Write dtype="bf16", which needs no scale, or remove the hooks.',
            )
        )
    if any(isinstance(m, (nn.Embedding, nn.EmbeddingBag)) and m.sparse for m in model.modules()):
        reasons.append(
            Reason(
                f"{name} gets sparse gradients, which are not scaled here",
                'Build the embedding without sparse=True, or write dtype="bf16".',
            )
        )
    return reasons


def _is_ours(hook: Callable[..., Any]) -> bool:
    """Whether an entry that is kept put it there: undo takes it out, and the scale does not disturb it."""
    return (getattr(hook, "__module__", None) or "").startswith("accel.")


def _with_scaling(evidence: str) -> Proof:
    """What the loss scaling of the process counted, beside where float16 was seen."""
    from accel.techniques.numerics.loss_scaling import live_loss_scaling

    scaling = live_loss_scaling()
    if scaling is None or not scaling.passes:
        return Proof(False, f"{evidence}, but no backward pass was scaled")
    skipped = f"{scaling.skipped} of {scaling.steps} steps skipped"
    trained = scaling.steps == 0 or scaling.skipped < scaling.steps
    return Proof(trained, f"{evidence}; {skipped}, loss scale {scaling.scale:g}")
