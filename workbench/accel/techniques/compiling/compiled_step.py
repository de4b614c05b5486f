"""`optimizer.step` compiled in place: the instance gets a step of its own, and gives it back.

Only what the class's step does is compiled. Hooks, closures and the scheduler's bookkeeping stay outside, in Python: they
are other people's code, and may do what no graph can hold.
"""

from __future__ import annotations

import inspect
import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from accel.errors import AccelError, Reason
from accel.techniques.compiling.compiled_code import Compiled, CompileOptions, compiled_for, note_if_in_python

if TYPE_CHECKING:
    import torch

_SLOT = "step"
_BY_SCHEDULER = "_wrapped_by_lr_sched"  # torch's schedulers mark the step that they count with
_MOVED_BY_DYNAMO = ("step", "mu_product")  # to the parameter's device, as `capturable` wants them


class CompiledStep:
    """The step of one optimizer while it is compiled: how often it ran, and how often in Python after all."""

    def __init__(self, optimizer: torch.optim.Optimizer, options: CompileOptions) -> None:
        from torch.utils.weak import WeakTensorKeyDictionary

        self.compiled: Compiled = compiled_for(optimizer, _update, options)
        self.plain: Callable[..., Any] = inspect.unwrap(type(optimizer).step)
        self.calls = 0
        self._in_python_before = self.compiled.in_python
        self.is_on = True
        self._rates: list[torch.Tensor] = []
        self._met = WeakTensorKeyDictionary()  # parameters that took a step here

    @property
    def in_python(self) -> int:
        """How many of the steps ran in Python after all."""
        return self.compiled.in_python - self._in_python_before

    @property
    def ran_compiled(self) -> bool:
        """Whether steps were taken, and their work was not done by the Python of the class."""
        return self.calls > 0 and self.in_python == 0 and self.compiled.refused == 0

    def __call__(self, optimizer: torch.optim.Optimizer, closure: Callable[[], Any] | None = None) -> Any:
        import torch

        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            if not self.is_on or is_fused(optimizer) or self._is_mixed(optimizer):
                self.plain(optimizer)
                return loss
            with self._rates_as_tensors(optimizer):
                self.compiled(optimizer, self.plain)
        self.calls += 1
        return loss

    def _is_mixed(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether some parameters take their first step, which makes their state, beside others that have theirs.

        Tracing that fails (torch 2.14, SGD with momentum: SpeculationLogDivergence), and the graph would be used once.
        """
        with_gradient = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        new = [p for p in with_gradient if p not in optimizer.state and p not in self._met]
        self._met.update((parameter, True) for parameter in new)
        return 0 < len(new) < len(with_gradient)

    @contextmanager
    def _rates_as_tensors(self, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """A learning rate that is a number is compiled in, and a scheduler's next one compiled anew.

        As tensors they are handed in for the call only: schedulers and the user's code go on seeing numbers.
        """
        import torch

        groups = [group for group in optimizer.param_groups if _takes_tensor_rate(group)]
        while len(self._rates) < len(groups):
            self._rates.append(torch.tensor(0.0, dtype=torch.float64))  # as exact as the number
        before = [group["lr"] for group in groups]
        try:
            for group, rate in zip(groups, self._rates, strict=False):
                rate.fill_(group["lr"])
                group["lr"] = rate
            yield
        finally:
            for group, number in zip(groups, before, strict=True):
                group["lr"] = number


def _update(optimizer: torch.optim.Optimizer, step: Callable[..., Any]) -> None:
    note_if_in_python()
    step(optimizer)


@contextmanager
def compiled_step(optimizer: torch.optim.Optimizer, options: CompileOptions) -> Iterator[None]:
    """While entered, `optimizer.step()` runs compiled code; nothing changes if it does so already.

    Leaving gives the optimizer its step back, and the step counts and flags that compiling moved to the GPU.
    """
    import torch

    if (present := found_step(optimizer)) is not None:
        if present.compiled.options != options:
            raise AccelError(
                f"compiling {type(optimizer).__name__}.step with {options.written or 'the default options'}",
                because=f"it is compiled already with {present.compiled.options.written or 'the default options'}",
                do='Give compile_optimizer and compile_model(scope="step") the same mode and backend, or leave one out.',
            )
        yield
        return
    state = vars(optimizer)
    was_set, before = _SLOT in state, state.get(_SLOT)
    run = CompiledStep(optimizer, options)

    def step(self: torch.optim.Optimizer, closure: Callable[[], Any] | None = None) -> Any:
        if was_set:
            self._opt_called = True  # type: ignore[attr-defined]  # all that the scheduler's own step does
        return run(self, closure)

    hooked: Any = torch.optim.Optimizer.profile_hook_step(step)
    if was_set:
        setattr(hooked, _BY_SCHEDULER, True)
    ours = state[_SLOT] = types.MethodType(hooked, optimizer)
    _LIVE[optimizer] = run
    flags = [(group, group["capturable"]) for group in optimizer.param_groups if "capturable" in group]
    try:
        yield
    finally:
        run.is_on = False
        _LIVE.pop(optimizer, None)
        if (
            state.get(_SLOT) is ours
        ):  # else a scheduler that was made meanwhile wrapped it, and passes through it from now on
            if was_set:
                state[_SLOT] = before
            else:
                del state[_SLOT]
        _give_back_counts(optimizer, flags)


def found_step(optimizer: torch.optim.Optimizer) -> CompiledStep | None:
    """The compiled step that is in force on an optimizer, also under somebody else's; None when there is none."""
    return _LIVE.get(optimizer)


_LIVE: weakref.WeakKeyDictionary[torch.optim.Optimizer, CompiledStep] = weakref.WeakKeyDictionary()


def is_fused(optimizer: torch.optim.Optimizer) -> bool:
    """Whether it updates everything in one kernel already; torch.compile does not look into that."""
    return any(group.get("fused") for group in optimizer.param_groups)


def why_not_step(name: str, optimizer: torch.optim.Optimizer) -> list[Reason]:
    """Reasons why the step of an optimizer cannot be compiled."""
    import torch

    kind = type(optimizer)
    own = {each for each in vars(torch.optim).values() if isinstance(each, type)}
    known: Any = next(each for each in kind.__mro__ if each in own)
    if isinstance(optimizer, (torch.optim.LBFGS, torch.optim.SparseAdam)):
        return [
            Reason(f"{name} is {_with_article(kind)}, which torch.compile leaves alone", "Leave this off.")
        ]
    if known is torch.optim.Optimizer or inspect.unwrap(kind.step) is not inspect.unwrap(known.step):
        return [
            Reason(
                f"{name} is {_with_article(kind)} with a step of its own, of which torch.compile knows nothing",
                "Use an optimizer of torch.optim, or compile the step by hand.",
            )
        ]
    if any(group.get("differentiable") for group in optimizer.param_groups):
        return [
            Reason(
                f"{name} is differentiable, and a compiled step records no gradients",
                "Build it without differentiable=True.",
            )
        ]
    if any(p.grad is not None and p.grad.is_sparse for g in optimizer.param_groups for p in g["params"]):
        return [
            Reason(
                f"{name} gets sparse gradients, which cannot be compiled",
                "Build the embedding without sparse=True, or leave this off.",
            )
        ]
    if _is_replaced_by_user(optimizer):
        return [
            Reason(
                f"{name}.step was replaced by one of your own", "Take it out to compare, or leave this off."
            )
        ]
    return []


def compiled_step_code(
    name: str, optimizer: torch.optim.Optimizer | None, options: CompileOptions
) -> list[str]:
    """The same as plain lines, for the optimizer that the user calls so."""
    rates = []
    if optimizer is None or all(_takes_tensor_rate(group) for group in optimizer.param_groups):
        rates = [
            f"for _group in {name}.param_groups:  # a number would be compiled in, and each new one compiled anew",
            '    _group["lr"] = torch.as_tensor(_group["lr"], dtype=torch.float64)',
        ]
    given = f", {options.written}" if options.written else ""
    counted: list[str] = []
    if optimizer is not None and hasattr(vars(optimizer).get(_SLOT), _BY_SCHEDULER):
        counted = [
            "",
            "def _step(self, *args, _compiled=_step, **kwargs):",
            "    self._opt_called = True  # all that the scheduler's own step does",
            "    return _compiled(self, *args, **kwargs)",
            "",
            f"_step.{_BY_SCHEDULER} = True",
        ]
    return [
        "import inspect",
        "import types",
        "",
        "import torch",
        "",
        *rates,
        f"_step = torch.compile(inspect.unwrap(type({name}).step){given})",
        "# Hooks, those of schedulers and profilers too, stay outside of what is compiled.",
        "_step = torch.optim.Optimizer.profile_hook_step(torch.no_grad()(_step))",
        *counted,
        f"if not hasattr({name}, 'has_compiled_step'):  # a second run of this cell finds it done",
        f"    {name}.has_compiled_step = True",
        f"    {name}.step = types.MethodType(_step, {name})",
    ]


def _is_replaced_by_user(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the instance has a step that is neither a scheduler's nor one of the catalogue's."""
    present = vars(optimizer).get(_SLOT)
    if present is None or hasattr(present, _BY_SCHEDULER) or found_step(optimizer) is not None:
        return False
    return not str(getattr(present, "__module__", "")).startswith("accel.")


def _takes_tensor_rate(group: dict[str, Any]) -> bool:
    """Whether the learning rate is a number that may become a tensor: with foreach=True that is an error in torch."""
    return isinstance(group["lr"], float) and not group.get("foreach")


def _give_back_counts(optimizer: torch.optim.Optimizer, flags: list[tuple[dict[str, Any], bool]]) -> None:
    """The step counts back to the CPU, where torch has them unless the optimizer is fused or capturable."""
    import torch

    for group in optimizer.param_groups:
        if "capturable" in group:  # a group added meanwhile gets what it would have got without us
            usual = bool(optimizer.defaults.get("capturable"))
            group["capturable"] = next((flag for known, flag in flags if known is group), usual)
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            for key in _MOVED_BY_DYNAMO:
                value = state.get(key)
                if isinstance(value, torch.Tensor) and not (group.get("capturable") or group.get("fused")):
                    state[key] = value.to("cpu")


def _with_article(kind: type[object]) -> str:
    return f"{'an' if kind.__name__[0] in 'AEIOUL' else 'a'} {kind.__name__}"
