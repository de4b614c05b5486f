"""The call of a model that is being pruned: it counts training calls, and cuts the model down when its time has come."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from accel.techniques.pruning.narrowed_model import NarrowedModel
from accel.workload.applied_time import applying

if TYPE_CHECKING:
    import torch

    from accel.techniques.pruning.pruning_plan import PruningPlan
    from accel.techniques.pruning.pruning_schedule import PruningSchedule


@dataclass
class _Progress:
    """How far the pruning of a model had come when it was undone; trials take a plan off and put it on again."""

    schedule: PruningSchedule
    calls: int
    plan: PruningPlan | None
    marks: list[tuple[str, int, int]]


_progress: weakref.WeakKeyDictionary[torch.nn.Module, _Progress] = weakref.WeakKeyDictionary()


def _marks(model: torch.nn.Module) -> list[tuple[str, int, int]]:
    """Identity and version of each parameter: they change when it is trained or loaded."""
    return [(name, id(parameter), parameter._version) for name, parameter in model.named_parameters()]


@dataclass
class PruningCall:
    """The model's call, which cuts the model down when its time has come."""

    schedule: PruningSchedule
    model: torch.nn.Module
    inner: Callable[..., Any] = field(init=False)
    training_calls: int = 0
    calls_cut_down: int = 0

    def __post_init__(self) -> None:
        self.narrowed = NarrowedModel(self.model)
        self.parameters_before = _count(self.model)
        self.gradients = _GradientSums()
        if self.schedule.criterion == "taylor":
            self.gradients.follow(self.model)

    def around(self, inner: Callable[..., Any]) -> PruningCall:
        """Stand round `inner`."""
        self.inner = inner
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        import torch

        if not torch.compiler.is_compiling():
            self._cut_down_if_due(args, kwargs)
            self.calls_cut_down += self.narrowed.plan is not None
        return self.inner(*args, **kwargs)

    def _cut_down_if_due(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        import torch

        is_training = self.model.training and torch.is_grad_enabled()
        at_once = self.schedule.last_call == 0
        if self.training_calls > self.schedule.last_call or not (is_training or at_once):
            return
        if ratio := self.schedule.ratio_at(self.training_calls):
            with applying():
                gradients = self.gradients.of(self.model)
                self.narrowed.narrow(self.schedule.plan(self.model, args, kwargs, ratio, gradients))
                self.gradients.sums.clear()
        self.training_calls += 1
        if self.training_calls > self.schedule.last_call:
            self.gradients.forget()

    def go_on_where_it_was(self) -> None:
        """As far as it was when it was last undone, if nothing happened to the model since."""
        progress = _progress.pop(self.model, None)
        if progress is None or progress.schedule != self.schedule or progress.marks != _marks(self.model):
            return
        self.training_calls = progress.calls
        if progress.plan is not None:
            self.narrowed.narrow(progress.plan)
        if self.training_calls > self.schedule.last_call:
            self.gradients.forget()

    def undo(self) -> None:
        """Widen the model, and remember how far it was."""
        self.gradients.forget()
        plan = self.narrowed.plan
        self.narrowed.widen()
        if self.training_calls:
            _progress[self.model] = _Progress(self.schedule, self.training_calls, plan, _marks(self.model))

    def evidence(self) -> tuple[bool, str]:
        """Whether the model is smaller and was called so, and in which words."""
        plan, now = self.narrowed.plan, _count(self.model)
        if plan is None or not self.calls_cut_down:
            steps = f"{self.training_calls} of {self.schedule.last_call + 1} training calls came"
            return False, f"nothing was taken out yet: {steps}"
        if now >= self.parameters_before:
            return False, f"the model has {now:,} parameters, as before"
        widths = [f"{name} {full}→{left}" for name, (full, left) in plan.filters.items()]
        shown = ", ".join(widths[:3]) + (f" and {len(widths) - 3} more" if len(widths) > 3 else "")
        return True, f"filters {shown}; {self.parameters_before:,} → {now:,} parameters"


class _GradientSums:
    """The gradients of each parameter, added up over the steps since the model was last cut down."""

    def __init__(self) -> None:
        self.sums: dict[int, torch.Tensor] = {}
        self._hooks: list[Any] = []

    def follow(self, model: torch.nn.Module) -> None:
        for parameter in model.parameters():
            if parameter.requires_grad:
                register: Any = parameter.register_post_accumulate_grad_hook
                self._hooks.append(register(self._add))

    def of(self, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        named = model.named_parameters()
        return {name: self.sums[id(one)] for name, one in named if id(one) in self.sums}

    def forget(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.sums.clear()

    def _add(self, parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        # Here a gradient that float16 let overflow has not been seen yet: one such step would spoil the sum for good.
        gradient, known = parameter.grad.detach().nan_to_num(0.0, 0.0, 0.0), self.sums.get(id(parameter))
        if known is None or known.shape != gradient.shape:
            self.sums[id(parameter)] = gradient
        else:
            known.add_(gradient)


def _count(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())
