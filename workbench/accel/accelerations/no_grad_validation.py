"""Calls of the model in eval mode without the graph that a backward would need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.accelerations.model_call import distinct, find_wrapper, wrapped_call
from accel.accelerations.user_names import class_name, names_of, nothing_seen
from accel.errors import AccelError

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload
    from accel.workload.forward_calls import CallsOfLine


@dataclass(frozen=True)
class NoGradValidation:
    """Record no graph for calls of the model in eval mode.

    What it does
        A call of the model after `model.eval()` runs under `torch.no_grad()`: its activations are freed at once,
        where they otherwise stay until the result is dropped. Inputs that want a gradient (adversarial examples, a
        generator behind a discriminator) let the call through as it is. A backward that after all comes to such a
        result is an error that says so, never a gradient that is silently missing.
    When it helps
        Validation and other evaluation without `torch.no_grad()`: `model.eval()` alone records all the same. What
        it saves surely is memory, so that validation can take larger batches. On one core of an EPYC the forward
        pass became ×1.04 to ×1.08 for an MLP, the course CNN and a transformer layer, ×1.01 for resnet18.
    When it hurts
        A median training step does not contain validation: look at the time of the epoch, or at memory. Training in
        eval mode (fine-tuning with BatchNorm frozen that way) cannot be done under it, and is refused. Without
        gradients torch takes other kernels for some layers (TransformerEncoderLayer): the results of validation can
        differ by about 1e-7.
    In plain PyTorch
        model.eval()
        with torch.no_grad():
            output = model(images)
    References
        https://docs.pytorch.org/docs/stable/notes/autograd.html#locally-disabling-gradient-computation
        https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    name: ClassVar[str] = "no_grad_validation"
    layer: ClassVar[Layer] = "model"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[str]:
        """No model, no call in eval mode that recorded a graph for nothing, or a backward through such calls."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "models"):
            return unseen
        reasons = [
            f"{name} is wrapped by torch.compile(…), which hides its call. "
            f"Write {name}.compile() instead, which keeps it."
            for name, model in distinct(replica.models)
            if "_orig_mod" in vars(model).get("_modules", {})
        ]
        return reasons + _why_not_these(workload.model_calls)

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Wrap each model's call."""
        with ExitStack() as stack:
            for _, model in distinct(replica.models):
                stack.enter_context(wrapped_call(model, partial(_GraphlessCall, model=model)))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many calls in eval mode there were, and what autograd recorded for them."""
        found = [find_wrapper(model, _GraphlessCall) for _, model in distinct(replica.models)]
        calls = sum(call.calls for call in found if call is not None)
        nodes = sum(call.nodes for call in found if call is not None)
        if not calls:
            return Proof(False, "no call in eval mode came in the steps so far")
        often = f"{calls} call{'' if calls == 1 else 's'} in eval mode"
        return Proof(nodes == 0 and None not in found, f"autograd recorded {nodes} operations for {often}")

    def as_code(self, workload: Workload) -> str:
        """A subclass of the model's class that records gradients in training mode only."""
        parts = ["import torch", ""]
        for name in names_of(workload, "models"):
            made = class_name(name, "RecordingInTraining")
            parts += [
                f"class {made}(type({name})):",
                "    def __call__(self, *args, **kwargs):",
                "        with torch.set_grad_enabled(self.training and torch.is_grad_enabled()):",
                "            return super().__call__(*args, **kwargs)",
                "",
                f"{name}.__class__ = {made}",
                "",
            ]
        return "\n".join(parts) + "\n"


def _why_not_these(calls: tuple[CallsOfLine, ...] | None) -> list[str]:
    if calls is None:
        return []
    in_eval = [call for call in calls if not call.is_training]
    reasons = [
        f"Line {call.line} calls the model in eval mode, and a backward goes through the result. Leave this off, "
        "and put `with torch.no_grad():` round validation alone."
        for call in in_eval
        if call.is_trained_through
    ]
    if reasons or any(call.is_validation for call in in_eval):
        return reasons
    if any(call.is_validation for call in calls):
        return [
            "Validation calls the model in training mode, where a call that trains looks the same. "
            "Call model.eval() before it, or put `with torch.no_grad():` round it."
        ]
    return ["No call in eval mode recorded a graph in the profiled run. Leave this off; nothing is lost."]


@dataclass(eq=False)
class _GraphlessCall:
    inner: Callable[..., Any]
    model: torch.nn.Module
    calls: int = 0
    nodes: int = 0
    can_be_guarded: bool | None = None  # not known before its first result was seen

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch
        from torch._C._autograd import _get_sequence_nr as nodes_recorded
        from torch.utils._pytree import tree_map

        if torch.compiler.is_compiling() or not self._records_for_nothing(args, kwargs):
            return self.inner(*args, **kwargs)
        if self.can_be_guarded is None:
            output = self.inner(*args, **kwargs)
            self.can_be_guarded = _is_plain(output)
            return output
        before, caches = nodes_recorded(), torch.is_autocast_cache_enabled()
        # Weights that autocast casts here would be kept for a training call in the same `with autocast`: without a graph.
        torch.set_autocast_cache_enabled(False)
        try:
            with torch.no_grad():
                output = self.inner(*args, **kwargs)
        finally:
            torch.set_autocast_cache_enabled(caches)
        self.calls += 1
        self.nodes += nodes_recorded() - before
        return tree_map(_guarded, output)

    def _records_for_nothing(self, args: Any, kwargs: Any) -> bool:
        import torch
        from torch.utils._pytree import tree_leaves

        return (
            not self.model.training
            and self.can_be_guarded is not False
            and torch.is_grad_enabled()
            and any(parameter.requires_grad for parameter in self.model.parameters())
            and not any(
                isinstance(leaf, torch.Tensor) and leaf.requires_grad for leaf in tree_leaves((args, kwargs))
            )
        )


def _is_plain(output: Any) -> bool:
    """Whether torch's pytree finds every tensor in it: a result of a class of the user's own may hide some."""
    import torch
    from torch.utils._pytree import tree_leaves

    known = (torch.Tensor, bool, int, float, str, bytes, type(None))
    return all(isinstance(leaf, known) for leaf in tree_leaves(output))


def _guarded(value: Any) -> Any:
    """The same tensor for every use but a backward, which raises: results still say that they require grad."""
    import torch

    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return value
    return _no_backward()(torch.ones((), device="cpu", requires_grad=True), [value])


@cache
def _no_backward() -> Callable[[torch.Tensor, list[torch.Tensor]], torch.Tensor]:
    import torch

    class CallWithoutGraph(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, anchor: torch.Tensor, held: list[torch.Tensor]) -> torch.Tensor:
            return held[0].data  # a tensor of its own: the model may have handed back its input

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
            raise AccelError(
                "backward",
                because="it goes through a call of the model in eval mode, for which no_grad_validation recorded no graph",
                do="Take it back (%accel undo no_grad_validation), or call model.train() before calls that train.",
            )

    apply: Callable[[torch.Tensor, list[torch.Tensor]], torch.Tensor] = CallWithoutGraph.apply
    return apply
