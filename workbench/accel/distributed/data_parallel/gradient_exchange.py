"""After each backward pass that a step may follow, every gradient is the mean over all ranks, however the cell came by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from accel.distributed.data_parallel.averaging import average, average_tensors, send_to_all
from accel.distributed.data_parallel.graph_leaves import parameters_of_graph

if TYPE_CHECKING:
    import torch

    from accel.distributed.data_parallel.synchronised_model import SynchronisedModel

_PASSES_TO_LOOK_AT = 8  # backward passes in whose graphs parameters are looked for that belong to no model
Marks = dict[int, tuple[Any, int]]


class GradientExchange:
    """Averages what DDP does not: first passes, unused parameters, parts called by themselves, parameters of no model.

    >>> exchange = GradientExchange(2, on_wait=print); exchange.models.append(synchronised)
    >>> marks = exchange.before_backward([loss]); loss.backward(); exchange.after_backward(marks)

    Clipping, loss scaling and updates by hand find means; `flush` is for those who need gradients in the middle of accumulation.
    """

    def __init__(self, world_size: int, on_wait: Callable[[float], None]) -> None:
        self._world_size = world_size
        self.models: list[SynchronisedModel] = []
        self.after_pass: set[str] = set()  # classes of the models whose gradients DDP was too early for
        self.exchanges = 0  # backward passes after which, or in which, gradients were exchanged
        self._is_backward = False  # a backward pass runs
        self.is_in_pass = False  # a model was called, and its backward pass has not been yet
        self._on_wait = on_wait
        self.before: Callable[[], object] = lambda: (
            None
        )  # called when gradients of all ranks are about to meet
        self._loose: dict[int, Any] = {}
        self._local: set[int] = set()
        self._left_alone: set[int] = set()
        self._looks = _PASSES_TO_LOOK_AT

    def add(self, parameters: Iterable[Any]) -> None:
        """These are trained too, though no model that was called has them; all ranks begin with rank 0's."""
        held = self._left_alone | {id(p) for each in self.models for p in each.parameters}
        new = [p for p in parameters if id(p) not in held and id(p) not in self._loose]
        if new:
            self.before()
            send_to_all([p for p in new if p.numel()])
            self._loose |= {id(p): p for p in new}

    def leave_alone(self, parameters: set[int]) -> None:
        """Somebody else averages the gradients of these, by id."""
        self._left_alone |= parameters
        self._local -= parameters
        self._loose = {key: p for key, p in self._loose.items() if key not in parameters}

    def remove(self, model: Any, *, is_part: bool = False) -> None:
        """This model is trained no more, or as a part of another, which has the gradients that it got."""
        gone = {id(p) for each in self.models if each.model is model for p in each.parameters}
        self.models = [each for each in self.models if each.model is not model]
        if not is_part:
            self._local -= gone

    def forget(self) -> None:
        """Nothing is averaged any more: somebody else does."""
        self.models.clear()
        self._loose.clear()
        self._local.clear()

    def before_backward(self, outputs: Sequence[Any]) -> Marks:
        """New gradients are to come; gives what is there before them."""
        self._is_backward = True
        self.look(outputs)
        self._drop_doubles()
        for each in self.models:
            each.is_complete = False
        return {id(p): (p.grad, p.grad._version) for p in self.parameters if p.grad is not None}

    def look(self, outputs: Sequence[Any]) -> None:
        """In the first backward passes, also average the tensors in the autograd graph of `outputs` that all ranks train."""
        if self._looks:
            self._looks -= 1
            known = {id(p) for p in self.parameters} | self._left_alone
            self.add(parameters_of_graph(outputs, known, self.before))

    def after_backward(self, marks: Marks, *, is_last_batch: bool = False) -> None:
        """Average what this pass gave, where it is due."""
        self.is_in_pass = self._is_backward = False
        touched = {id(p) for p in self.parameters if _is_new(p.grad, marks.get(id(p)))}
        self._local |= touched
        waiting = [p for p in self._loose.values() if p.requires_grad]
        own: list[SynchronisedModel] = []
        was_exchanged = False
        for each in self.models:
            mine = touched & {id(p) for p in each.parameters}
            is_due = each.accumulation.is_due(is_last_batch=is_last_batch)
            if mine:
                each.is_trained = True
                each.accumulation.passed()
            if each.is_complete:
                self._local -= each.in_ddp
                each.is_armed, was_exchanged = False, True
                mine -= each.in_ddp
                if mine:  # thawed since
                    each.take_off()
            elif mine and each.is_armed:  # some parameters took no part
                each.check_graph_may_change()
                self.after_pass.add(type(each.model).__name__)
                each.take_off()
            if is_due and (mine or not each.is_wrapped) and not each.is_complete:
                own.append(each)
                waiting += [p for p in each.parameters if p.requires_grad]
        if waiting:
            was_exchanged |= self._average(waiting, own)
        self.exchanges += was_exchanged

    def flush(self, *, is_step: bool = False) -> None:
        """Somebody is about to use gradients: average those that are not yet."""
        if not self._local:
            return
        self._average([p for p in self.parameters if p.requires_grad], [])
        self.exchanges += 1
        for each in self.models:
            if not (is_step and each.accumulation.waits_for_step):
                each.accumulation.never_again()

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        """What this optimizer changes has means for gradients."""
        held = (p for group in optimizer.param_groups for p in group["params"])
        parameters = [p for p in held if id(p) not in self._left_alone]
        known = {id(p) for p in self.parameters}
        if unknown := [p for p in parameters if id(p) not in known]:
            self._loose |= {id(p): p for p in unknown}
            self._local |= {id(p) for p in unknown if p.grad is not None}
            self._looks = _PASSES_TO_LOOK_AT
            self._average(unknown, [])
        if self._is_backward:  # it steps in a hook, as soon as its gradients are there
            self._local |= {id(p) for p in parameters if p.grad is not None}
            self._average([p for p in parameters if p.requires_grad], [])
        if self._local & {id(p) for p in parameters}:
            self.flush(is_step=True)

    def after_step(self, optimizer: torch.optim.Optimizer) -> None:
        """The gradients are used up."""
        changed = {id(p) for group in optimizer.param_groups for p in group["params"]}
        for each in self.models:
            if any(id(p) in changed for p in each.parameters):
                each.was_stepped()

    def means_of(self, gradients: Sequence[Any], inputs: Sequence[Any]) -> None:
        """Average what torch.autograd.grad gave for parameters."""
        self._is_backward = False
        self.before()
        average_tensors(
            [g for g, p in zip(gradients, inputs, strict=True) if g is not None and self.knows(p)]
        )

    def holds(self, tensor: Any) -> bool:
        """Whether this is a part of such a parameter or of its gradient, by any name."""
        place = tensor.untyped_storage().data_ptr()
        held = (each for p in self.parameters for each in (p, p.grad) if each is not None)
        return any(each.untyped_storage().data_ptr() == place for each in held)

    def knows(self, tensor: Any) -> bool:
        """Whether this is a parameter that all ranks train."""
        return id(tensor) in self._loose or any(tensor is p for each in self.models for p in each.parameters)

    def _average(self, parameters: list[Any], own: list[SynchronisedModel]) -> bool:
        self.before()
        began = time.perf_counter()
        done = average(parameters, self._local)
        for each in own:
            on_ranks = [done.get(id(p), 0) for p in each.parameters if p.requires_grad]
            if any(on_ranks):
                each.pass_was(complete=min(on_ranks) == self._world_size)
        self._local -= done.keys()
        self._on_wait(time.perf_counter() - began)
        return bool(done)

    @property
    def parameters(self) -> list[Any]:
        """All that are trained: of no model, and of the models."""
        return [*self._loose.values(), *(p for each in self.models for p in each.parameters)]

    def _drop_doubles(self) -> None:
        for each in self.models:
            for p in each.parameters:
                self._loose.pop(id(p), None)


def _is_new(gradient: Any, before: tuple[Any, int] | None) -> bool:
    if gradient is None:
        return False
    return before is None or gradient is not before[0] or gradient._version != before[1]
