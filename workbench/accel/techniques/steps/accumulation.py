"""An optimizer's step that keeps gradients until there are enough for an update on their mean.

What is below is also what `%accel export` writes into a cell: it uses torch and the standard library only.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch


class Accumulation:
    """The gradients that wait for the next update of one optimizer."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.batches = self.updates = self.waiting = 0
        self.passed_by = 0  # updates that somebody made without us
        self.is_active = True
        self.is_updating = False
        self.kept: dict[torch.Tensor, torch.Tensor] = {}

    def step(self, optimizer: Any, take_step: Callable[..., Any], closure: Callable[[], Any] | None) -> Any:
        """Keep the gradients; the last batch of a round updates."""
        if getattr(optimizer, "grad_scale", None) is not None:
            raise RuntimeError(
                "The optimizer is fused, and the GradScaler leaves it to the update to unscale gradients. "
                "Build it without fused=True, or update after each batch."
            )
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            self.keep(optimizer)
            if self.waiting >= self.size:
                self.hand_over()
                self.is_updating = True
                try:
                    take_step()
                finally:
                    self.is_updating = False
                self.updates += 1
        return loss

    def keep(self, optimizer: Any) -> None:
        """Add this batch's gradients to those that wait."""
        having = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        again = [p for p in having if p in self.kept]
        if again:
            torch._foreach_add_([self.kept[p] for p in again], [p.grad for p in again])
        self.kept.update({p: p.grad.clone() for p in having if p not in self.kept})
        self.batches += 1
        self.waiting += 1

    def hand_over(self) -> None:
        """The mean of what waits becomes the parameters' gradient."""
        if self.kept:
            torch._foreach_div_(list(self.kept.values()), float(self.waiting))
        for parameter, gradient in self.kept.items():
            if parameter.grad is None:
                parameter.grad = gradient
            else:  # it may be a view of a bucket, as DistributedDataParallel has them
                parameter.grad.copy_(gradient)
        self.kept, self.waiting = {}, 0

    def count_update(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """After each of torch's own steps."""
        if not self.is_updating:
            self.passed_by += 1


def accumulating(take_step: Callable[..., Any], accumulation: Accumulation) -> Callable[..., Any]:
    """What stands in for an optimizer's step, as a function of the optimizer."""

    def step(self: Any, closure: Callable[[], Any] | None = None) -> Any:
        if not accumulation.is_active:  # a scheduler that was built meanwhile still calls us
            return take_step() if closure is None else take_step(closure)
        if hasattr(take_step, "_wrapped_by_lr_sched"):
            self._opt_called = True  # or its scheduler would warn that it came first
        return accumulation.step(self, take_step, closure)

    function: Any = step
    if hasattr(take_step, "_wrapped_by_lr_sched"):
        function._wrapped_by_lr_sched = True  # or its scheduler would warn that somebody replaced the step
    return step


def step_every(optimizer: Any, batches: int) -> None:
    """Let the optimizer step for so many batches at once; called again, as by a cell that runs again, it takes the new number."""
    if not hasattr(optimizer, "_step_accumulation"):
        optimizer._step_accumulation = Accumulation(batches)
        step = accumulating(optimizer.step, optimizer._step_accumulation)
        optimizer.step = types.MethodType(step, optimizer)  # a method: schedulers wrap its `__func__`
    optimizer._step_accumulation.size = batches
