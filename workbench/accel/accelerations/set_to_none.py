"""Gradients let go instead of filled with zeros."""

from __future__ import annotations

import types
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.techniques.model.model_call import distinct
from accel.techniques.model.own_attribute import own_attribute
from accel.techniques.source.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class SetToNone:
    """Let `optimizer.zero_grad(set_to_none=False)` drop the gradients instead of writing zeros into them.

    What it does
        Replaces `zero_grad` of each optimizer, in place, by one that always sets `.grad` to None, whatever it is called
        with. Since torch 2.0 that is the default: only cells that ask for zeros have something to gain.
    When it helps
        Zeros are written once and read once more when backward adds to them: two passes over memory as large as the
        weights, in each step. Not measured here yet: the share of `zero_grad` in a profile is what it can save, and
        about as much again in backward.
    When it hurts
        A parameter that gets no gradient in a step is then passed over; with zeros, weight decay and momentum move it
        all the same. Where every parameter gets one, the numbers stay the same. Code that reads `.grad` between
        `zero_grad` and backward finds None. `parameter.grad.zero_()` by hand and `model.zero_grad(set_to_none=False)`
        do not pass through here: write `optimizer.zero_grad()` instead. The optimizer that a cell builds is reached at
        its first step. Memory comes and goes with each step where it stood still before.
    In plain PyTorch
        optimizer.zero_grad()
    References
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    """

    name: ClassVar[str] = "set_to_none"
    layer: ClassVar[Layer] = "optimizer"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No optimizer, or gradients that are dropped already."""
        optimizers = distinct(workload.objects().optimizers)
        if unseen := nothing_seen(workload, "optimizers"):
            return unseen
        if not workload.clears_to_zeros and not any(optimizer in _live for _, optimizer in optimizers):
            return [
                Reason(
                    "The cell called no zero_grad(set_to_none=False) of an optimizer: torch drops gradients by default",
                    "Nothing needs to be done, unless it calls model.zero_grad(set_to_none=False): "
                    "write optimizer.zero_grad() there.",
                )
            ]
        return []

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Replace `zero_grad` of each optimizer."""
        with ExitStack() as stack:
            for _, optimizer in distinct(replica.optimizers):
                stack.enter_context(_dropping(optimizer))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether gradients were gone after calls that asked for zeros."""
        found = [_live.get(optimizer) for _, optimizer in distinct(replica.optimizers)]
        calls = [each for each in found if each is not None]
        asked, dropped = sum(each.asked for each in calls), sum(each.dropped for each in calls)
        evidence = f"after {dropped} of {asked} calls that asked for zeros the gradients were gone"
        return Proof(asked > 0 and dropped == asked, evidence)

    def as_code(self, workload: Workload) -> str:
        """A `zero_grad` for the optimizers that are there."""
        parts = [
            "import types",
            "",
            "def drop_gradients(optimizer, set_to_none=True):",
            "    type(optimizer).zero_grad(optimizer, set_to_none=True)",
            "",
        ]
        for name in names_of(workload, "optimizers"):
            parts.append(f"{name}.zero_grad = types.MethodType(drop_gradients, {name})")
        return "\n".join(parts) + "\n"


@dataclass(eq=False)
class _Calls:
    """Calls that asked for zeros, and after how many of them no gradient was left."""

    asked: int = 0
    dropped: int = 0
    is_active: bool = True


_live: weakref.WeakKeyDictionary[torch.optim.Optimizer, _Calls] = weakref.WeakKeyDictionary()


@contextmanager
def _dropping(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    clear, calls = optimizer.zero_grad, _Calls()

    def zero_grad(self: torch.optim.Optimizer, set_to_none: bool = True) -> None:
        if set_to_none or not calls.is_active:  # somebody who put theirs round ours still calls us
            clear(set_to_none=set_to_none)
            return
        clear(set_to_none=True)
        calls.asked += 1
        calls.dropped += all(p.grad is None for group in self.param_groups for p in group["params"])

    _live[optimizer] = calls
    try:
        with own_attribute(optimizer, "zero_grad", types.MethodType(zero_grad, optimizer)):
            yield
    finally:
        calls.is_active = False
        if _live.get(optimizer) is calls:
            del _live[optimizer]
