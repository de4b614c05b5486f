"""Convolution weights and images in the channels-last layout."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.model.model_call import distinct, find_wrapper, why_never_called, wrapped_call
from accel.techniques.numerics.tensor_layout import (
    is_channels_last,
    kept_layout,
    same_layout_code,
    to_channels_last,
    view_refusal,
    why_not_moved,
)
from accel.techniques.source.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class ChannelsLast:
    """Lay images and convolution weights out with the channels next to each other (NHWC).

    What it does
        Weights and buffers with four dimensions are laid out channels-last in place, with the gradients and
        optimizer state that belong to them, and so are four-dimensional inputs of the model. The shapes stay as
        they are.
    When it helps
        Convolutions whose kernels want this layout anyway (oneDNN, cuDNN with tensor cores): it spares them a
        reordering per layer. Measured on one core of an EPYC, course CNN, batch 64, under a steady allocator: ×1.26
        alone, and ×2.06 with autocast where autocast alone gave ×1.31: use the two together.
    When it hurts
        Code that calls `.view()` on the output of a convolution raises (`.reshape()` and `.flatten()` work): in the
        model it is found beforehand, on a copy without memory; in the cell a trial shows it. Models that permute
        between layers pay for copies. DenseNet121 on 32×32 images: ×1.07 [0.83, 1.14], undecided. Sums are formed in
        another order: differences of about 1e-7, which grow step by step where training is chaotic (3 % by the third
        step of that DenseNet on random data). While it is on, a fused optimizer needs its state in the same layout as
        the weights; this is done here, but a state loaded from a checkpoint afterwards has the checkpoint's layout.
    In plain PyTorch
        model = model.to(memory_format=torch.channels_last)
        output = model(images.to(memory_format=torch.channels_last))
    References
        https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html
        https://github.com/pytorch/pytorch/issues/50036
    """

    name: ClassVar[str] = "channels_last"
    layer: ClassVar[Layer] = "model"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No model with four-dimensional weights, or one that cannot be laid out like this."""
        import torch

        replica = workload.objects()
        if unseen := nothing_seen(workload, "models"):
            return unseen
        reasons = []
        models = distinct(replica.models)
        if models and not any(p.dim() == 4 for _, model in models for p in model.parameters()):
            reasons.append(
                Reason(
                    "No model has convolution weights (four dimensions) to lay out",
                    "Leave it off for this model.",
                )
            )
        for name, model in models:
            if any(p.dim() == 5 for p in model.parameters()):
                reasons.append(
                    Reason(
                        f"{name} has 3-D convolutions",
                        f"Lay it out with {name}.to(memory_format=torch.channels_last_3d) instead.",
                    )
                )
            reasons += why_not_moved(name, model) or why_never_called(name, workload)
            if is_channels_last(model) and find_wrapper(model, _ChannelsLastCall) is None:
                reasons.append(Reason(f"{name} is channels-last already", "Nothing needs to be done."))
        inputs = {role.name: role.inputs for role in workload.roles if role.kind == "models"}
        for name, model in models if not reasons else []:
            if refusal := view_refusal(model, inputs.get(name)):
                reasons.append(
                    Reason(
                        f"In {name} {refusal}", "Write .flatten(1) or .reshape() instead of .view() there."
                    )
                )
        for name, optimizer in distinct(replica.optimizers):
            if isinstance(optimizer, torch.optim.LBFGS):
                reasons.append(
                    Reason(
                        f"{name} is an LBFGS, which flattens gradients with .view()",
                        "Leave channels_last off, or use another optimizer.",
                    )
                )
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Lay out weights, buffers, gradients and optimizer state; lay out inputs at each call."""
        with ExitStack() as stack:
            for name, model in distinct(replica.models):
                if not why_not_moved(
                    name, model
                ):  # one that the cell builds was not there to be asked before
                    call = partial(_ChannelsLastCall, was_so=is_channels_last(model))
                    stack.enter_context(kept_layout(model))
                    to_channels_last(model)
                    stack.enter_context(wrapped_call(model, call))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether weights are laid out so, and inputs came in so."""
        import torch

        models = distinct(replica.models)
        calls = [find_wrapper(model, _ChannelsLastCall) for _, model in models]
        if calls and all(call is not None and call.was_so for call in calls):
            return Proof(False, "the weights were channels-last already: nothing was left to do")
        images = sum(call.images for call in calls if call is not None)
        weights = [p for _, model in models for p in model.parameters() if p.dim() == 4]
        laid_out = sum(w.is_contiguous(memory_format=torch.channels_last) for w in weights)
        took_effect = bool(weights) and laid_out == len(weights) and images > 0 and None not in calls
        evidence = (
            f"{laid_out} of {len(weights)} convolution weights are channels-last, and {images} inputs were"
        )
        return Proof(took_effect, evidence)

    def as_code(self, workload: Workload) -> str:
        """`model.to(memory_format=…)`, a hook that lays out inputs, and the state of fused optimizers likewise."""
        parts = [
            "import torch",
            "from torch.utils._pytree import tree_map",
            "",
            "def images_channels_last(module, args, kwargs):",
            "    is_image = lambda t: torch.is_tensor(t) and t.dim() == 4",
            "    laid_out = lambda t: t.to(memory_format=torch.channels_last) if is_image(t) else t",
            "    return tree_map(laid_out, args), tree_map(laid_out, kwargs)",
            "",
        ]
        for name in names_of(workload, "models"):
            parts.append(f"{name}.to(memory_format=torch.channels_last)")
            parts += [
                f'if not hasattr({name}, "takes_channels_last"):  # this cell may run again',
                f"    {name}.register_forward_pre_hook(images_channels_last, with_kwargs=True)",
                f"    {name}.takes_channels_last = True",
            ]
        for name, optimizer in workload.objects().optimizers.items():
            if any(group.get("fused") for group in optimizer.param_groups):
                parts += same_layout_code(name)
        return "\n".join(parts) + "\n"


class _ChannelsLastCall:
    def __init__(self, inner: Callable[..., Any], was_so: bool = False) -> None:
        self.inner, self.was_so = inner, was_so
        self.images = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from torch.utils._pytree import tree_map

        args, kwargs = tree_map(self._laid_out, (args, kwargs))
        return self.inner(*args, **kwargs)

    def _laid_out(self, value: Any) -> Any:
        import torch

        if not isinstance(value, torch.Tensor) or value.dim() != 4:
            return value
        self.images += 1
        return value.to(memory_format=torch.channels_last)
