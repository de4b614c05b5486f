"""The cell's own autocast, off for the whole process: what it would have cast stays in float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.hooks.attribute_patches import AttributePatches
from accel.workload.names_used import names_used

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload


@dataclass(frozen=True)
class AutocastOff:
    """Train in float32 where the cell, or a library that it calls, enters torch.autocast.

    What it does
        While this plan is on, `torch.autocast` has no effect outside compiled code: not in the cell, not in a model's
        forward, not in a library such as Lightning or Accelerate. A GradScaler keeps scaling, though float32 does not need it.
    When it helps
        On hardware that emulates the format: bfloat16 on CPUs without avx512_bf16 or AMX, float16 on CPUs
        without avx512_fp16. On models whose operations are so short that the casts cost more than they save.
    When it hurts
        Where the hardware has the format, float32 is slower and takes up to twice the memory. Weights stored
        in 16 bits stay in 16 bits. An autocast inside compiled code stays on.
    In plain PyTorch
        with torch.autocast("cpu", enabled=False):   # or delete this line
            loss = criterion(model(inputs), targets)
    References
        https://docs.pytorch.org/docs/stable/amp.html
        https://github.com/pytorch/pytorch/issues/118499 (a CPU epoch took 231 s instead of 2.5 s)
    """

    name: ClassVar[str] = "autocast_off"
    layer: ClassVar[Layer] = "hygiene"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ("autocast",)

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No operation ran under autocast."""
        seen = workload.conditions
        if seen.autocast if seen is not None else "autocast" in names_used(workload):
            return []
        return [
            Reason(
                "Autograd recorded no operation under autocast while the cell ran",
                "Remove autocast_off from the plan.",
            )
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Make `torch.autocast` switch nothing on; only for a whole process."""
        if not replica.is_process_wide:
            yield
            return
        switch, patches = _Switch(), AttributePatches()
        try:
            patches.wrap(_autocast(), "__enter__", switch.wrap)
            _in_force.append(switch)
            yield
        finally:
            switch.is_over = True
            patches.take_back()
            if switch in _in_force:
                _in_force.remove(switch)

    def took_effect(self, replica: Replica) -> Proof:
        """How often an autocast was entered and left off."""
        entered = sum(switch.entered for switch in _in_force)
        if not entered:
            return Proof(False, "the training has not entered autocast")
        return Proof(
            True, f"the training entered autocast {entered} times, and accel switched it off each time"
        )

    def as_code(self, workload: Workload) -> str:
        """Code that makes entering autocast do nothing; removing autocast from the training does the same."""
        return AS_CODE


AS_CODE = '''\
import torch


def enter_without_casting(autocast):
    """Replaces `torch.autocast.__enter__`; removing autocast from the code has the same effect."""
    entered = enter_without_casting.with_casting(autocast)
    torch.set_autocast_enabled(autocast.device, False)
    return entered


enter_without_casting.with_casting = getattr(torch.autocast.__enter__, "with_casting", torch.autocast.__enter__)
torch.autocast.__enter__ = enter_without_casting
'''


class _Switch:
    """Counts what enters an autocast, and switches that off again."""

    def __init__(self) -> None:
        self.entered, self.is_over = 0, False

    def wrap(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        import torch

        def enter(autocast: Any) -> Any:
            entered = original(autocast)
            if not self.is_over and torch.is_autocast_enabled(autocast.device):
                self.entered += 1
                torch.set_autocast_enabled(autocast.device, False)
            return entered

        return enter


def _autocast() -> type:
    import torch

    return torch.autocast


_in_force: list[_Switch] = []
