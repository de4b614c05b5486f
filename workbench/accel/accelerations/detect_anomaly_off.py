"""Autograd's anomaly mode, off for the whole process, whoever switches it on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.errors import Reason
from accel.hooks.attribute_patches import AttributePatches
from accel.hooks.training_loop import wrap_backward
from accel.workload.names_used import names_used

if TYPE_CHECKING:
    from accel.machine import Machine
    from accel.workload import Replica, Workload

_TOLD_WHAT_WAS_ASKED = ("torch.autograd.anomaly_mode", "accel.workload.run_conditions")
SWITCHES = frozenset({"set_detect_anomaly", "detect_anomaly", "set_anomaly_enabled"})


@dataclass(frozen=True)
class DetectAnomalyOff:
    """Train without autograd's anomaly mode, wherever it is switched on.

    What it does
        Switches anomaly mode off for the process. While this is on, `set_detect_anomaly(True)` and
        `detect_anomaly()` do nothing, in the cell, in an earlier one or in a library; what they asked for is
        remembered, and holds again after undo.
    When it helps
        Where the mode was left on from looking for a NaN. It formats a traceback for each operation of forward,
        and asks of each gradient whether it holds a NaN, which on a GPU waits for the device each time. On one
        core of an EPYC it made steps of the course CNN and of resnet18 1.3 times as long, those of a small MLP 5.7
        times.
    When it hurts
        A NaN in a gradient no longer stops training: it reaches the weights. While you are looking for one, leave
        this off. What C++ extensions switch on by themselves is not seen.
    In plain PyTorch
        torch.autograd.set_detect_anomaly(False)
    References
        https://docs.pytorch.org/docs/stable/autograd.html#anomaly-detection
        https://docs.pytorch.org/tutorials/recipes/recipes/tuning_guide.html
    """

    name: ClassVar[str] = "detect_anomaly_off"
    layer: ClassVar[Layer] = "hygiene"
    effect: ClassVar[Effect] = "exact"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """Anomaly mode is off anyway."""
        import torch

        seen = workload.conditions
        was_on = seen.anomaly_mode if seen is not None else bool(SWITCHES & names_used(workload))
        if was_on or torch.is_anomaly_enabled() or any(switch.was_asked for switch in _in_force):
            return []
        return [
            Reason(
                "Autograd's anomaly mode was not on while the cell ran", "Leave this off; nothing is lost."
            )
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Switch it off, and let switching it on only be remembered; nothing for a part of the process."""
        if not replica.is_process_wide:
            yield
            return
        with _Switch().held_off():
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether backward passes ran without the mode, though something asked for it."""
        if not any(switch.was_asked for switch in _in_force):
            return Proof(False, "nothing has switched anomaly mode on")
        passes = sum(switch.passes for switch in _in_force)
        under_it = sum(switch.passes_under_it for switch in _in_force)
        if under_it or not passes:
            return Proof(False, f"{under_it} of {passes} backward passes ran under anomaly mode")
        return Proof(
            True, f"{passes} backward passes ran without anomaly mode, though something switched it on"
        )

    def as_code(self, workload: Workload) -> str:
        """One call; where the training code itself switches the mode on, that is made to do nothing."""
        lines = ["import torch", "", "torch.autograd.set_detect_anomaly(False)"]
        if SWITCHES & names_used(workload):
            lines += [
                "# set_detect_anomaly(True) and detect_anomaly() end up here: they are to do nothing.",
                "torch.set_anomaly_enabled = lambda mode, check_nan=True: None",
            ]
        return "\n".join(lines) + "\n"


class _Switch:
    """Stands in for torch's two functions that set and read the mode, remembers what was asked for, and watches backward."""

    def __init__(self) -> None:
        import torch

        self._patches = AttributePatches()
        self._set, self._read = torch.set_anomaly_enabled, torch.is_anomaly_enabled
        self._wanted = self.was_asked = torch.is_anomaly_enabled()
        self.passes = self.passes_under_it = 0

    @contextmanager
    def held_off(self) -> Iterator[None]:
        import torch

        try:
            self._set(False, torch.is_anomaly_check_nan_enabled())
            self._patches.add(torch, "set_anomaly_enabled", self.note)
            self._patches.add(torch, "is_anomaly_enabled", self.read)
            wrap_backward(self._patches, self._counting_passes)
            _in_force.append(self)
            yield
        finally:
            self._patches.take_back()
            self._set(self._wanted, torch.is_anomaly_check_nan_enabled())
            if self in _in_force:
                _in_force.remove(self)

    def note(self, enabled: bool, check_nan: bool = True) -> None:
        """In place of `torch.set_anomaly_enabled`."""
        if not self._patches.are_on:  # something else still calls it after its time
            self._set(enabled, check_nan)
            return
        self._wanted = enabled
        self.was_asked = self.was_asked or enabled
        self._set(False, check_nan)

    def read(self) -> bool:
        """In place of `torch.is_anomaly_enabled`: the truth, but to a `with` that asks what it has to put back later, and to
        a profile, from which the plan must not hide that the cell needs it."""
        if self._patches.are_on and sys._getframe(1).f_globals.get("__name__") in _TOLD_WHAT_WAS_ASKED:
            return self._wanted
        return bool(self._read())

    def _counting_passes(self, original: Callable[..., Any]) -> Callable[..., Any]:
        from torch._C import is_anomaly_enabled

        def run_backward(*args: Any, **kwargs: Any) -> Any:
            self.passes += 1
            self.passes_under_it += is_anomaly_enabled()
            return original(*args, **kwargs)

        return run_backward


_in_force: list[_Switch] = []
