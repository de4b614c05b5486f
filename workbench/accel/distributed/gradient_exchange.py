"""Before an optimizer steps, every gradient is the mean over all ranks, whichever way the cell came by it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from accel.distributed.synchronised_model import SynchronisedModel


class GradientExchange:
    """Averages what DDP did not: gradients of a model whose parts were called, or of one with unused parameters.

    >>> exchange = GradientExchange(); exchange.models.append(synchronised)
    >>> exchange.before_step(optimizer)
    """

    def __init__(self) -> None:
        self.models: list[SynchronisedModel] = []
        self.averaged_late: set[str] = set()  # classes of the models concerned

    def before_backward(self) -> None:
        """New gradients are to come."""
        for each in self.models:
            each.backward_begins()

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Average what is not averaged yet; every rank calls this at the same step, with the same parameters."""
        averaged = {
            id(p) for each in self.models if each.is_complete for p in each.model.parameters()
        }  # fmt: skip
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        waiting = [p for p in parameters if p.requires_grad and id(p) not in averaged]
        if waiting and _somewhere(waiting):
            self._average(waiting)
            for each in self.models:
                own = {id(p) for p in each.model.parameters()}
                if not each.is_complete and any(id(p) in own for p in waiting):
                    self.averaged_late.add(type(each.model).__name__)
                    each.look_for_unused()

    def after_step(self) -> None:
        """The gradients are used up."""
        for each in self.models:
            each.step_is_over()

    def _average(self, parameters: list[Any]) -> None:
        import torch
        import torch.distributed as dist

        present = torch.tensor([p.grad is not None for p in parameters], dtype=torch.int32)
        present = _on_device_of(parameters, present)
        dist.all_reduce(present, op=dist.ReduceOp.MAX)  # what one rank has, all need
        for parameter, is_present in zip(parameters, present.tolist(), strict=True):
            if not is_present:
                continue
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            gradient = parameter.grad
            gradient.div_(dist.get_world_size())
            dist.all_reduce(gradient)


def _somewhere(parameters: Iterable[Any]) -> bool:
    """Whether any rank has a gradient to average."""
    import torch
    import torch.distributed as dist

    parameters = list(parameters)
    any_here = torch.tensor([any(p.grad is not None for p in parameters)], dtype=torch.int32)
    any_here = _on_device_of(parameters, any_here)
    dist.all_reduce(any_here, op=dist.ReduceOp.MAX)
    return bool(any_here.item())


def _on_device_of(parameters: list[Any], flags: Any) -> Any:
    """NCCL exchanges nothing that lies on the CPU."""
    return flags.to(parameters[0].device)
