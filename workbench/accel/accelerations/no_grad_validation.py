"""Calls of the model in eval mode without the graph that a backward would need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.techniques.model.model_call import distinct, find_wrapper, why_not_wrapped, wrapped_call
from accel.techniques.source.plain_source import plain_source
from accel.techniques.source.user_names import class_name, names_of, nothing_seen
from accel.units import counted
from accel.workload.user_code import CodeLine

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

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No model, no call in eval mode that recorded a graph for nothing, or a backward through such calls."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "models"):
            return unseen
        reasons = [
            reason for name, model in distinct(replica.models) for reason in why_not_wrapped(name, model)
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
        often = f"{counted(calls, 'call')} in eval mode"
        return Proof(nodes == 0 and None not in found, f"autograd recorded {nodes} operations for {often}")

    def as_code(self, workload: Workload) -> str:
        """The functions that a live call goes through, and a subclass of each model's class that calls them."""
        from accel.techniques.model import graphless_calls

        parts = [plain_source(graphless_calls), ""]
        for name in names_of(workload, "models"):
            made = class_name(name, "RecordingInTraining")
            parts += [
                f"class {made}(type({name})):",
                "    is_recording_in_training = True",
                "",
                "    def __call__(self, *args, **kwargs):",
                f'        error = RuntimeError("backward: {_BECAUSE}. Take {made} out, {_OR}")',
                "        return call_without_graph(self, super().__call__, args, kwargs, error)",
                "",
                f'if not hasattr({name}, "is_recording_in_training"):  # this cell may run again',
                f"    {name}.__class__ = {made}",
                "",
            ]
        return "\n".join(parts) + "\n"


_BECAUSE = "it goes through a call of the model in eval mode, for which no_grad_validation recorded no graph"
_OR = "or call model.train() before calls that train."


def _why_not_these(calls: tuple[CallsOfLine, ...] | None) -> list[Reason]:
    if calls is None:
        return []
    in_eval = [call for call in calls if not call.is_training]
    reasons = [
        Reason(
            f"The call in {CodeLine(call.filename, call.line)} is in eval mode, and a backward goes through the result",
            "Leave this off, and put `with torch.no_grad():` round validation alone.",
        )
        for call in in_eval
        if call.is_trained_through
    ]
    if reasons or any(call.is_validation for call in in_eval):
        return reasons
    if any(call.is_validation for call in calls):
        return [
            Reason(
                "Validation calls the model in training mode, where a call that trains looks the same",
                "Call model.eval() before it, or put `with torch.no_grad():` round it.",
            )
        ]
    return [
        Reason(
            "No call in eval mode recorded a graph in the profiled run", "Leave this off; nothing is lost."
        )
    ]


@dataclass(eq=False)
class _GraphlessCall:
    inner: Callable[..., Any]
    model: torch.nn.Module
    calls: int = 0
    nodes: int = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        from accel.techniques.model.graphless_calls import call_without_graph

        if torch.compiler.is_compiling() or not torch.is_grad_enabled():
            return self.inner(*args, **kwargs)
        do = f"Take it back (%accel undo no_grad_validation), {_OR}"
        error = AccelError("backward", because=_BECAUSE, do=do)
        return call_without_graph(self.model, self._counted, args, kwargs, error)

    def _counted(self, *args: Any, **kwargs: Any) -> Any:
        import torch
        from torch._C._autograd import _get_sequence_nr as nodes_recorded

        if torch.is_grad_enabled():
            return self.inner(*args, **kwargs)
        before = nodes_recorded()
        output = self.inner(*args, **kwargs)
        self.calls += 1
        self.nodes += nodes_recorded() - before
        return output
