"""One fused kernel per optimizer step instead of several small ones per parameter."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from accel.accelerations.acceleration import Effect, Layer, Proof
from accel.accelerations.model_call import distinct
from accel.accelerations.tensor_layout import same_layout, same_layout_code
from accel.accelerations.user_names import names_of, nothing_seen

if TYPE_CHECKING:
    import torch

    from accel.machine import Machine
    from accel.workload import Replica, Workload

_FUSED = {"fused": True, "foreach": None}
_CHECKED = (
    "_need_device_dtype_check_for_fused"  # SGD and Adagrad note on themselves that they checked devices
)


@dataclass(frozen=True)
class FusedOptimizer:
    """Let Adam, AdamW, SGD or Adagrad update all parameters in one fused kernel.

    What it does
        Sets `fused=True` in the optimizer's parameter groups, in place: the same optimizer object, with the state
        it has.
    When it helps
        The plain step reads and writes each parameter several times (27–40 % of all bytes of an Adam step on the
        course CNN). Measured on one core of an EPYC, under a steady allocator: ×1.08 [1.07, 1.09] on the course
        CNN, batch 64; ×1.10 [1.05, 1.57] on DenseNet121, batch 16. The larger the model and the smaller the batch,
        the more.
    When it hurts
        Seldom; models whose step is a small part of the time gain nothing. Rounding differs in the last bit (1e-7).
        `optimizer.load_state_dict` brings the checkpoint's flags along and so switches it off again. It trusts that
        weights, gradients and state have one memory layout, and updates wrongly where they differ.
    In plain PyTorch
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    References
        https://docs.pytorch.org/docs/stable/generated/torch.optim.Adam.html
    """

    name: ClassVar[str] = "fused_optimizer"
    layer: ClassVar[Layer] = "optimizer"
    effect: ClassVar[Effect] = "close"
    needs_own_process: ClassVar[bool] = False
    conflicts: ClassVar[tuple[str, ...]] = ()

    def why_not(self, workload: Workload, machine: Machine) -> list[str]:
        """No optimizer, or one that has no fused kernel for these parameters."""
        replica = workload.objects()
        if unseen := nothing_seen(workload, "optimizers"):
            return unseen
        return [
            reason
            for name, optimizer in distinct(replica.optimizers)
            for reason in _why_not_fused(name, optimizer)
        ]

    @contextmanager
    def apply(self, replica: Replica) -> Iterator[None]:
        """Set the flags of each optimizer that has a fused kernel."""
        with ExitStack() as stack:
            for name, optimizer in distinct(replica.optimizers):
                if not _why_not_fused(
                    name, optimizer
                ):  # one that the cell builds was not there to be asked before
                    stack.enter_context(_fused(optimizer))
            yield

    def took_effect(self, replica: Replica) -> Proof:
        """Whether the flags are still set."""
        groups = [group for _, optimizer in distinct(replica.optimizers) for group in optimizer.param_groups]
        fused = sum(group.get("fused") is True and not group.get("foreach") for group in groups)
        evidence = f"{fused} of {len(groups)} parameter groups are fused"
        return Proof(bool(groups) and fused == len(groups), evidence)

    def as_code(self, workload: Workload) -> str:
        """Set the flags in the parameter groups of the optimizers that are there."""
        optimizers = workload.objects().optimizers
        parts = []
        for name in names_of(workload, "optimizers"):
            parts += [
                f"for _options in (*{name}.param_groups, {name}.defaults):",
                "    _options.update(fused=True, foreach=None)",
            ]
            groups = optimizers[name].param_groups if name in optimizers else []
            parameters = [p for group in groups for p in group["params"]]
            if any(p.dim() == 4 for p in parameters):
                parts += ["import torch", *same_layout_code(name)]
            if any(p.device.type != "cpu" for p in parameters):
                parts += [
                    f"for _parameter, _state in {name}.state.items():  # fused kernels count steps on the device",
                    '    if "step" in _state:',
                    '        _state["step"] = _state["step"].to(_parameter.device)',
                ]
        return "\n".join(parts) + "\n"


_live: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()


@contextmanager
def _fused(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    groups = [(group, {flag: group[flag] for flag in _FUSED}) for group in optimizer.param_groups]
    defaults = {flag: optimizer.defaults[flag] for flag in _FUSED}
    noted, was_live = vars(optimizer).get(_CHECKED), optimizer in _live
    for options in (*optimizer.param_groups, optimizer.defaults):
        options.update(_FUSED)
    _count_steps_where_expected(optimizer)
    same_layout(optimizer)
    _live.add(optimizer)
    try:
        yield
    finally:
        optimizer.defaults.update(defaults)
        for group in optimizer.param_groups:  # a group added meanwhile gets what it would have got without us
            group.update(next((flags for known, flags in groups if known is group), defaults))
        if noted is None:
            vars(optimizer).pop(_CHECKED, None)
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


def _why_not_fused(name: str, optimizer: torch.optim.Optimizer) -> list[str]:
    import torch

    known = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad)
    kinds = [kind for kind in known if isinstance(optimizer, kind) and type(optimizer).step is kind.step]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if not kinds:
        return [
            f"{name} is a {type(optimizer).__name__}, which has no fused kernel. "
            "Use Adam, AdamW, SGD or Adagrad, or leave this off."
        ]
    if any(group.get("differentiable") for group in optimizer.param_groups):
        return [f"{name} is differentiable, which no fused kernel is. Build it without differentiable=True."]
    if optimizer not in _live and all(group.get("fused") for group in optimizer.param_groups):
        return [f"{name} is fused already. Nothing needs to be done."]
    if any(p.grad is not None and p.grad.is_sparse for p in parameters):
        return [
            f"{name} gets sparse gradients, which have no fused kernel. "
            "Build the embedding without sparse=True, or leave this off."
        ]
    if refusal := _refusal(kinds[0], parameters):
        return [
            f"This torch has no fused {kinds[0].__name__} for the parameters of {name} ({refusal}). "
            "Leave it off for this model."
        ]
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
