"""One fused kernel per optimizer step instead of several small ones per parameter."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from accel.accelerations.acceleration import Effect, Layer, Proof, Together
from accel.errors import Reason
from accel.techniques.model.model_call import distinct
from accel.techniques.numerics.tensor_layout import same_layout, same_layout_code
from accel.techniques.source.user_names import names_of, nothing_seen
from accel.techniques.steps.optimizer_updates import updates_seen, watched_updates
from accel.workload.names_used import names_in_functions

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload

_FLAGS: dict[str, dict[str, bool | None]] = {
    "fused": {"fused": True, "foreach": None},
    "foreach": {"foreach": True},
}
_CHECKED = (
    "_need_device_dtype_check_for_fused"  # SGD and Adagrad note on themselves that they checked devices
)


@dataclass(frozen=True)
class FusedOptimizer:
    """Let Adam, AdamW, SGD or Adagrad update all parameters in one fused kernel.

    What it does
        Sets `fused=True` in the optimizer's parameter groups, in place: the same optimizer object, with the state
        it has. kind="foreach" sets `foreach=True`: a few operations on all parameters together, for optimizers that
        have no fused kernel (RMSprop, NAdam, RAdam, Adamax, Adadelta, ASGD, Rprop …).
    When it helps
        The plain step reads and writes each parameter several times (27–40 % of all bytes of an Adam step on the
        course CNN). Measured on one core of an EPYC, under a steady allocator: ×1.08 [1.07, 1.09] on the course
        CNN, batch 64; ×1.10 [1.05, 1.57] on DenseNet121, batch 16. The larger the model and the smaller the batch,
        the more. "foreach" is torch's own choice on a GPU and helps where somebody forbade it, and on CPUs models of
        many small parameters; not measured here yet.
    When it hurts
        Seldom; models whose step is a small part of the time gain nothing. Rounding differs in the last bit (1e-7).
        `optimizer.load_state_dict` brings the checkpoint's flags along and so switches it off again. It trusts that
        weights, gradients and state have one memory layout, and updates wrongly where they differ. "foreach" holds a
        few copies of all parameters while it steps.
    In plain PyTorch
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    References
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html
    """

    kind: Literal["fused", "foreach"] = "fused"

    name: ClassVar[str] = "fused_optimizer"
    layer: ClassVar[Layer] = "optimizer"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[Reason]:
        """No optimizer, or one that cannot update these parameters in that form, or does already."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "optimizers"):
            return unseen
        return [
            reason
            for name, optimizer in distinct(replica.optimizers)
            for reason in self._why_not_one(name, optimizer)
        ]

    def why_not_beside(self, plan: Together, workload: Workload) -> list[Reason]:
        """A compiled step, which is one kernel for many parameters itself, and compiles anew for each rate under foreach."""
        compiles_steps = any(getattr(entry, "scope", "") == "step" for entry in plan.entries)
        if self.kind != "foreach" or not compiles_steps:
            return []
        return [
            Reason(
                'compile_model(scope="step") compiles these updates itself',
                'Leave fused_optimizer out, or use scope="model".',
            )
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set the flags of each optimizer that has this form."""
        with ExitStack() as stack:
            for name, optimizer in distinct(replica.optimizers):
                if not self._why_not_one(
                    name, optimizer
                ):  # one that the cell builds was not there to be asked before
                    stack.enter_context(watched_updates(optimizer))
                    stack.enter_context(_flagged(optimizer, _FLAGS[self.kind]))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether updates were made, all of them by torch's functions of this form."""
        optimizers = [optimizer for _, optimizer in distinct(replica.optimizers)]
        seen = [updates_seen(optimizer) for optimizer in optimizers]
        wanted, total = sum(each[self.kind] for each in seen), sum(each.total() for each in seen)
        idle = sum(not each for each in seen)
        evidence = f"{wanted} of {total} updates of parameter groups were {self.kind}"
        evidence += f"; {idle} of {len(seen)} optimizers made none of those watched" if idle else ""
        return Proof(0 < wanted == total and not idle, evidence)

    def as_code(self, workload: Workload) -> str:
        """Set the flags in the parameter groups of the optimizers that are there; a checkpoint may bring others."""
        optimizers, parts = workload.objects().optimizers, []
        loads = "load_state_dict" in names_in_functions(
            workload
        )  # of the cell's own lines the export knows more
        for number, name in enumerate(names_of(workload, "optimizers")):
            if not loads:
                parts += self._lines(name, optimizers.get(name))
                continue
            function = f"update_together_{number}"
            parts += [f"def {function}(optimizer):"]
            parts += [f"    {line}" for line in self._lines("optimizer", optimizers.get(name))]
            parts += [
                "",
                f"{function}({name})",
                "# Loading a checkpoint replaces these flags: set them again.",
            ]
            parts += [f"{name}.register_load_state_dict_post_hook({function})"]
        if any("torch." in line for line in parts):
            parts = ["import torch", *parts]
        return "\n".join(parts) + "\n"

    def _lines(self, name: str, optimizer: torch.optim.Optimizer | None) -> list[str]:
        flags = ", ".join(f"{flag}={value}" for flag, value in _FLAGS[self.kind].items())
        lines = [
            f"for _options in (*{name}.param_groups, {name}.defaults):",
            f"    _options.update({flags})",
        ]
        groups = optimizer.param_groups if optimizer is not None else []
        parameters = [p for group in groups for p in group["params"]]
        if self.kind == "foreach":
            return lines
        if any(p.dim() == 4 for p in parameters):
            lines += same_layout_code(name)
        if any(p.device.type != "cpu" for p in parameters):
            lines += [
                f"for _parameter, _state in {name}.state.items():  # fused kernels count steps on the device",
                '    if "step" in _state:',
                '        _state["step"] = _state["step"].to(_parameter.device)',
            ]
        return lines

    def _why_not_one(self, name: str, optimizer: torch.optim.Optimizer) -> list[Reason]:
        known = _kind_of_torch(optimizer)
        forms = inspect.signature(known).parameters if known is not None else ()
        if known is None or self.kind not in forms:
            what = "no fused kernel" if self.kind == "fused" else "no foreach form"
            do = "Use Adam, AdamW, SGD or Adagrad, or leave this off."
            if "foreach" in forms:
                do = 'Write fused_optimizer(kind="foreach"), or leave this off.'
            return [Reason(f"{name} is a {type(optimizer).__name__}, which has {what}", do)]
        groups = optimizer.param_groups
        if any(group.get("differentiable") for group in groups):
            return [
                Reason(
                    f"{name} is differentiable, which no {self.kind} update is",
                    "Build it without differentiable=True.",
                )
            ]
        if optimizer not in _live and all(group.get("fused") for group in groups):
            return [Reason(f"{name} is fused already", "Nothing needs to be done.")]
        parameters = [p for group in groups for p in group["params"]]
        if any(p.grad is not None and p.grad.is_sparse for p in parameters):
            return [
                Reason(
                    f"{name} gets sparse gradients, which cannot be updated together",
                    "Build the embedding without sparse=True, or leave this off.",
                )
            ]
        if self.kind == "foreach":
            return [] if optimizer in _live else _why_not_foreach(name, optimizer, parameters)
        if refusal := _refusal(known, parameters):
            return [
                Reason(
                    f"This torch has no fused {known.__name__} for the parameters of {name} ({refusal})",
                    "Leave it off for this model.",
                )
            ]
        return []


_live: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()


@contextmanager
def _flagged(optimizer: torch.optim.Optimizer, wanted: dict[str, bool | None]) -> Iterator[None]:
    groups = [(group, {flag: group[flag] for flag in wanted}) for group in optimizer.param_groups]
    defaults = {flag: optimizer.defaults[flag] for flag in wanted}
    noted, was_live = vars(optimizer).get(_CHECKED), optimizer in _live

    def set_flags() -> None:
        for options in (*optimizer.param_groups, optimizer.defaults):
            options.update(wanted)
        if wanted.get("fused"):
            _count_steps_where_expected(optimizer)
            same_layout(optimizer)

    def set_flags_again(_: object) -> None:
        """A checkpoint brings groups of its own, with the flags that it was saved with."""
        known = {id(group) for group, _ in groups}
        new = [group for group in optimizer.param_groups if id(group) not in known]
        groups.extend((group, {flag: group.get(flag) for flag in wanted}) for group in new)
        set_flags()

    loading = optimizer.register_load_state_dict_post_hook(set_flags_again)
    try:
        _live.add(optimizer)
        set_flags()
        yield
    finally:
        loading.remove()
        optimizer.defaults.update(defaults)
        for group in optimizer.param_groups:  # a group added meanwhile gets what it would have got without us
            group.update(next((flags for known, flags in groups if known is group), defaults))
        if noted is None:
            vars(optimizer).pop(_CHECKED, None)
        if wanted.get("fused"):
            _count_steps_where_expected(optimizer)
        if not was_live:
            _live.discard(optimizer)


def _count_steps_where_expected(optimizer: torch.optim.Optimizer) -> None:
    """Fused kernels count steps in float32 on the parameter's device, the others on the CPU in torch's default."""
    import torch
    from torch.optim.optimizer import _get_scalar_dtype

    for group in optimizer.param_groups:
        on_device = group["fused"] or group.get("capturable")
        for parameter in group["params"]:
            state = optimizer.state.get(parameter, {})
            if isinstance(state.get("step"), torch.Tensor):
                dtype = _get_scalar_dtype(is_fused=group["fused"])
                state["step"] = state["step"].to(device=parameter.device if on_device else "cpu", dtype=dtype)


def _kind_of_torch(optimizer: torch.optim.Optimizer) -> type[torch.optim.Optimizer] | None:
    """The class of torch.optim whose step it takes; None for a step of the user's own."""
    import torch

    own = {each for each in vars(torch.optim).values() if isinstance(each, type)}
    known: Any = next(each for each in type(optimizer).__mro__ if each in own)
    is_theirs = inspect.unwrap(type(optimizer).step) is inspect.unwrap(known.step)
    return known if is_theirs and known is not torch.optim.Optimizer else None


def _why_not_foreach(
    name: str, optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]
) -> list[Reason]:
    """Reasons against what is so already: asked for, or torch's own choice for these parameters."""
    from torch.optim.optimizer import _default_to_fused_or_foreach

    _, is_default = _default_to_fused_or_foreach(parameters, differentiable=False)
    if all(group["foreach"] or (group["foreach"] is None and is_default) for group in optimizer.param_groups):
        return [Reason(f"{name} updates its parameters together already", "Nothing needs to be done.")]
    return []


def _refusal(kind: type[torch.optim.Optimizer], parameters: list[torch.Tensor]) -> str:
    """Why torch has no fused kernel for these; empty when it has. The dispatcher is asked, nothing is run."""
    import torch

    if not all(p.is_floating_point() for p in parameters):
        return "not all are floating-point numbers"
    for device_type in sorted({p.device.type for p in parameters}):
        key = torch._C._dispatch_key_for_device(device_type)
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::_fused_{kind.__name__.lower()}_", key):
            return f"they are on {device_type}"
    return ""
