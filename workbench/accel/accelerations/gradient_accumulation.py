"""One optimizer step for several batches."""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import AccelError, Reason
from accel.techniques.model.model_call import distinct
from accel.techniques.model.own_attribute import own_attribute
from accel.techniques.source.plain_source import plain_source
from accel.techniques.source.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.techniques.steps.accumulation import Accumulation
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class GradientAccumulation:
    """Let the optimizer step once for `micro_batches` batches, on the mean of their gradients.

    What it does
        Replaces `optimizer.step` of each optimizer, in place: a call keeps a copy of the gradients, and every n-th puts
        the mean of all n into `.grad` and steps. The loop stays as it is: `zero_grad` may clear gradients between
        batches, `clip_grad_norm_` clips those of one batch, and what a GradScaler finds infinite is left out.
    When it helps
        A batch that memory cannot hold at once: `batch_size(factor=0.5)+gradient_accumulation` trains on the same
        number of samples a step with half the activations. And where updating the weights is a large part of a step:
        it is paid once for n batches. Trials compare it by the time of a sample.
    When it hurts
        It changes training, unless the batches are made smaller by as much: n times fewer updates, each on n times the
        samples. Copies of the gradients take as much memory as the weights. BatchNorm sees the small batches. A mean of
        gradients that were clipped batch by batch is not the clipped mean. Schedulers go on by calls, n of them to an
        update. Batches left over at the end of an epoch count towards the next step, and those at the end of the
        training are lost. DistributedDataParallel still exchanges gradients for each batch: `no_sync()` in the
        loop avoids that. An optimizer that the cell builds takes its first step as it comes.
    In plain PyTorch
        (criterion(model(inputs), targets) / n).backward()
        if (batch + 1) % n == 0:
            optimizer.step()
            optimizer.zero_grad()
    References
        https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """

    micro_batches: int = 2

    name: ClassVar[str] = "gradient_accumulation"
    layer: ClassVar[Layer] = "batch"
    effect: ClassVar[Effect] = "changes training"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()
    changes: ClassVar[tuple[str, ...]] = ("optimizers",)

    def __post_init__(self) -> None:
        if self.micro_batches < 2:
            raise AccelError(
                f"gradient_accumulation(micro_batches={self.micro_batches})",
                because="one batch a step is what every loop does",
                do="Write micro_batches=2 or more.",
            )

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No optimizer, one whose step is more than one update, or a cell that accumulates already."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "optimizers"):
            return unseen
        optimizers = distinct(replica.optimizers)
        reasons = [reason for name, optimizer in optimizers for reason in _why_not(name, optimizer)]
        if workload.accumulation > 1 and not any(optimizer in _live for _, optimizer in optimizers):
            reasons.append(
                Reason(
                    f"The cell accumulates the gradients of {workload.accumulation} batches for each step already",
                    "Change that number in the cell, or leave this off.",
                )
            )
        if replica.scalers:
            reasons += [
                Reason(
                    f"{name} is fused, and then a GradScaler leaves it to the update to unscale gradients",
                    "Build it without fused=True, or leave this off.",
                )
                for name, optimizer in optimizers
                if getattr(optimizer, "_step_supports_amp_scaling", False)
            ]
        return reasons

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Replace the step of each optimizer."""
        with ExitStack() as stack:
            for name, optimizer in distinct(replica.optimizers):
                if not _why_not(name, optimizer):  # one that the cell builds was not there to be asked before
                    stack.enter_context(_accumulating(optimizer, self.micro_batches))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """How many updates torch's own step made, and for how many batches."""
        found = [_live.get(optimizer) for _, optimizer in distinct(replica.optimizers)]
        live = [each for each in found if each is not None]
        if not live or len(live) < len(found):
            return Proof(False, "an optimizer steps for each batch")
        batches, updates = sum(each.batches for each in live), sum(each.updates for each in live)
        passed_by = sum(each.passed_by for each in live)
        took_effect = updates > 0 and not passed_by and all(each.size == self.micro_batches for each in live)
        evidence = f"{updates + passed_by} updates for {batches + passed_by} batches"
        return Proof(took_effect, evidence)

    def as_code(self, workload: Workload) -> str:
        """A step of the optimizers that are there, which keeps gradients until there are enough."""
        from accel.techniques.steps import accumulation

        calls = [
            f"step_every({name}, batches={self.micro_batches})" for name in names_of(workload, "optimizers")
        ]
        return "\n".join([plain_source(accumulation), "", *calls]) + "\n"


_live: weakref.WeakKeyDictionary[torch.optim.Optimizer, Accumulation] = weakref.WeakKeyDictionary()


@contextmanager
def _accumulating(optimizer: torch.optim.Optimizer, size: int) -> Iterator[None]:
    from accel.techniques.steps.accumulation import Accumulation, accumulating

    accumulation = Accumulation(size)
    step = accumulating(optimizer.step, accumulation)
    hook = optimizer.register_step_post_hook(accumulation.count_update)
    _live[optimizer] = accumulation
    if _is_stepping(optimizer):
        _withhold(optimizer, accumulation)
    try:
        # a method: schedulers wrap its `__func__`
        with own_attribute(optimizer, "step", types.MethodType(step, optimizer)):
            yield
    finally:
        accumulation.is_active = False
        accumulation.kept = {}
        hook.remove()
        if _live.get(optimizer) is accumulation:
            del _live[optimizer]


def _is_stepping(optimizer: torch.optim.Optimizer) -> bool:
    """Whether this is called from within its step: one that the cell builds is found there. A closure would run later."""
    step: Any = type(optimizer).step
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is getattr(step, "__code__", None) and frame.f_locals.get("self") is optimizer:
            return len(frame.f_locals.get("args", ())) == 1 and not frame.f_locals.get("kwargs")
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _withhold(optimizer: torch.optim.Optimizer, accumulation: Accumulation) -> None:
    """Let the step that has begun change nothing: its gradients wait for the others."""
    accumulation.keep(optimizer)
    held = [(p, p.grad) for group in optimizer.param_groups for p in group["params"]]
    for parameter, _ in held:
        parameter.grad = None
    accumulation.is_updating = True  # no update that somebody made without us

    def give_back(*_: Any) -> None:
        for parameter, gradient in held:
            parameter.grad = gradient
        accumulation.is_updating = False
        hook.remove()

    hook = optimizer.register_step_post_hook(give_back)


def _why_not(name: str, optimizer: torch.optim.Optimizer) -> list[Reason]:
    import torch

    if isinstance(optimizer, torch.optim.LBFGS):
        return [
            Reason(
                f"{name} is an LBFGS, which evaluates the loss several times in a step",
                "Use another optimizer, or leave this off.",
            )
        ]
    if any(group.get("differentiable") for group in optimizer.param_groups):
        return [Reason(f"{name} is differentiable, and copies of gradients are not", "Leave this off.")]
    gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
    if any(gradient.is_sparse for gradient in gradients):
        return [
            Reason(
                f"{name} gets sparse gradients, which are not added up in place",
                "Build the embedding without sparse=True, or leave this off.",
            )
        ]
    return []
