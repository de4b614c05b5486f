"""Make an unmodified training cell data-parallel: in one rank, while the cell runs.

A loader gives this rank's part, gradients are means over all ranks before anything uses them, and random numbers of training
differ from rank to rank. Objects are found as they are first used, whoever made them.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from accel.distributed.cells.plan_on_ranks import accumulates
from accel.distributed.data_parallel.bucket_exchange import BucketExchange
from accel.distributed.data_parallel.gradient_exchange import GradientExchange
from accel.distributed.data_parallel.gradient_readers import (
    code_in,
    reads_gradients,
    running_code,
)
from accel.distributed.data_parallel.graph_leaves import named_leaves
from accel.distributed.data_parallel.lineages import Lineages
from accel.distributed.data_parallel.own_distribution import (
    refuse_own_pieces,
    refuse_without_effect,
    refusing,
    telling,
)
from accel.distributed.data_parallel.shared_loops import SharedLoops
from accel.distributed.data_parallel.step_loss import StepLoss
from accel.distributed.data_parallel.step_watching import StepWatching
from accel.distributed.data_parallel.synchronised_model import SynchronisedModel
from accel.distributed.data_parallel.training_notes import (
    notes_of,
    notes_of_buckets,
    notes_of_loops,
    notes_of_own_distribution,
)
from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.step_lane import StepLane
from accel.errors import AccelError
from accel.hooks.attribute_patches import AttributePatches
from accel.hooks.leading_optimizer import LeadingOptimizer
from accel.hooks.training_loop import (
    after_step,
    before_step,
    is_inside_another_step,
    is_traced,
    wrap_backward,
    wrap_iterator,
)
from accel.techniques.model.model_call import wrapped_call
from accel.workload.discovery import Discovery

if TYPE_CHECKING:
    from accel.distributed.cells.run_options import RunOptions
    from accel.distributed.communication.communication_times import CommunicationTimes
    from accel.plans.plan import Plan
    from accel.workload.replica import Replica

_PASSES_TO_WATCH = 8


class RunStopped(BaseException):
    """Raised in the cell, when the step that all ranks agreed on is over."""


class DataParallel:
    """While entered, what this rank trains is trained by all ranks together.

    >>> with DataParallel(page, rank=0, world_size=2, namespace=namespace, options=RunOptions()) as parallel:
    ...     exec(code, namespace)
    >>> parallel.notes

    Without names of loaders in the options, each is shared out that is iterated with gradients on and a model in training mode.
    `prepare` may see an object twice.
    """

    def __init__(
        self, page: RankPage, *, rank: int, world_size: int, namespace: dict[str, Any], options: RunOptions,
        plan: Plan | None = None, knows_ranks: bool = False, prepare: Callable[[Replica], None] | None = None,
    ) -> None:  # fmt: skip
        self._world_size, self._namespace, self._options, self._plan = world_size, namespace, options, plan
        self._knows_ranks, self._prepare = knows_ranks, prepare
        self._exchanges_before_step = accumulates(plan)
        self.lineages, self._lane = Lineages(rank), StepLane(page, rank, steps=options.steps)
        self._watching = StepWatching(options)
        self._buckets = BucketExchange(options, on_wait=self._lane.waited, recorder=self._watching.recorder)
        self._exchange = GradientExchange(world_size, on_wait=self._lane.waited)
        self._loops = SharedLoops(
            self.lineages, rank=rank, world_size=world_size, batch=options.batch, named=list(options.loaders),
            namespace=namespace, on_batch=self._on_batch, before_share=self._before_share,
            on_evaluation=self._lane.evaluates,
        )  # fmt: skip
        self._reads_gradients = reads_gradients(code_in(namespace))
        self._patches, self._undo = AttributePatches(), ExitStack()
        # models, with the run of the cell that they were found in
        self._taken: list[tuple[int, Any, ExitStack]] = []
        self._run = 0
        self._is_shared = world_size > 1  # by us: what one rank does concerns the others
        self._leading = LeadingOptimizer()
        self._is_to_stop = False
        self._loss = StepLoss()
        self._is_stepping = False  # an optimizer runs, and may call a closure, as LBFGS does
        self._stepped: dict[int, int] = {}
        self.stepped: set[int] = set()  # ids of the optimizers that took a step, and of what they train
        self.notes: list[str] = []
        self.communication: CommunicationTimes | None = None  # once it is over, where it was asked for

    @property
    def steps(self) -> int:
        """Steps of the training so far: of the optimizer that leads."""
        return self._lane.steps

    @property
    def only_watches(self) -> bool:
        """Whether the cell distributes its training itself."""
        return self._world_size > 1 and not self._is_shared

    @property
    def first_step_at(self) -> float:
        """When its first step was done (time.monotonic)."""
        return self._lane.first_step_at

    @property
    def exchanges(self) -> int:
        """Backward passes that were followed, or accompanied, by an exchange of gradients."""
        return self._exchange.exchanges

    @property
    def parameters(self) -> list[Any]:
        """What all ranks train."""
        return self._exchange.parameters

    def __enter__(self) -> DataParallel:
        import torch
        from torch.nn.parallel import DistributedDataParallel
        from torch.nn.utils import clip_grad
        from torch.utils.data import DataLoader

        self._undo.callback(self._loops.close)
        self._undo.enter_context(Discovery(self._found, known=[]))
        self._undo.callback(self._patches.take_back)
        wrap_iterator(self._patches, self._loops.iterating)
        self._patches.wrap(DataLoader, "__len__", self._loops.counting)
        wrap_backward(self._patches, self._run_backward)
        self._patches.wrap(torch.amp.GradScaler, "scale", self._loss.scaling)
        if self._world_size > 1:
            self._patches.wrap(DistributedDataParallel, "__init__", telling(self.only_watch))
            for module in (torch.distributed, torch.distributed.distributed_c10d):
                self._patches.wrap(module, "all_reduce", refusing(self._holds))
            self._undo.enter_context(self.lineages.seeded_alike())
            self.lineages.begin_alike(self._patches)
            self._patches.wrap(clip_grad, "_group_tensors_by_device_and_dtype", self._after_flush)
            self._patches.wrap(torch.amp.GradScaler, "_unscale_grads_", self._after_flush)
            self._exchange.add(named_leaves(self._namespace))
        self._undo.enter_context(self._leading)
        before_step(self._patches, self._before_step)
        after_step(self._patches, self._after_step)
        self._lane.phase("between")
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        for _, _, taken in self._taken:
            self._undo.push(taken)
        self._undo.close()
        if kind is None or kind is RunStopped:
            self.communication = self._watching.finish(self._exchange, self._world_size)
        if self.only_watches:
            self.notes += notes_of_own_distribution(self._loops)
        elif self._world_size > 1:
            self.notes += notes_of(self._exchange, self._namespace, batch=self._options.batch)
            self.notes += notes_of_loops(self._loops)
            self.notes += notes_of_buckets(self._exchange, self._buckets)

    @property
    def models(self) -> list[Any]:
        """Those that were found in use."""
        return self._loops.models

    def beat(self) -> None:
        """A sign of life, when training is over and the rank evaluates."""
        self._lane.phase("evaluation")

    def went_on(self) -> None:
        """The loop that the cell is in was led to where a checkpoint was taken: what was read on the way counts for nothing."""
        self._loops.backwards += 1
        self._lane.forget_samples()

    def only_watch(self) -> None:
        """The cell distributes its training itself, as a script for torchrun does: nothing is shared out or averaged any more."""
        if not (self._is_shared and self._patches.are_on):
            return
        refuse_without_effect(self._options, self._plan)
        self._is_shared = False
        self._loops.only_watch()
        for _, _, taken in self._taken:
            taken.close()
        self._taken.clear()
        self._exchange.forget()

    def run_begins(self) -> None:
        """The cell is run again: a model that it builds takes the place of one of its class that an earlier run built."""
        self._run += 1
        self._leading.begins()
        self._loops.run_begins()

    def _found(self, replica: Replica) -> None:
        if self._prepare is not None:
            self._prepare(replica)
        for model in replica.models.values():
            if self._is_shared:
                refuse_own_pieces(model)
            self._let_go_of_earlier(type(model))
            self._loops.models.append(model)
            known = {id(p) for each in self._exchange.models for p in each.parameters}
            if any(id(p) in known for p in model.parameters()):
                continue  # what else it has is found in the graph of its loss
            wrap = self._synchronised if self._is_shared else self._watched
            taken = ExitStack()
            self._taken.append((self._run, model, taken))
            taken.enter_context(wrapped_call(model, functools.partial(wrap, model, taken)))

    def _before_share(self, loader: Any) -> None:
        """A loader is about to be shared out: what a plan changes of it has to be there before."""
        from accel.workload.replica import Replica

        if self._prepare is not None:
            self._prepare(Replica(loaders={type(loader).__name__: loader}, is_process_wide=False))

    def _let_go_of_earlier(self, kind: type) -> None:
        """Else all runs' models would pile up, and each step would look through them."""
        old = next((each for each in self._taken if each[0] < self._run and type(each[1]) is kind), None)
        if old is None:
            return
        self._taken.remove(old)
        old[2].close()
        self._exchange.remove(old[1])
        self._loops.models = [model for model in self._loops.models if model is not old[1]]

    def _watched(self, model: Any, taken: ExitStack, inner: Callable[..., Any]) -> Callable[..., Any]:
        """One rank alone: nothing but its phases."""
        import torch

        def call(*args: Any, **kwargs: Any) -> Any:
            self._lane.phase("forward" if torch.is_grad_enabled() and model.training else "evaluation")
            return inner(*args, **kwargs)

        call.inner = inner  # type: ignore[attr-defined]
        return call

    def _synchronised(self, model: Any, taken: ExitStack, inner: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        synchronised = SynchronisedModel(model, inner, self._buckets)
        self._exchange.models.append(synchronised)
        self._exchange.leave_alone(synchronised.averaged_by_others)
        taken.callback(synchronised.take_off)
        if self._exchanges_before_step:
            synchronised.accumulation.only_before_step()
        if self._knows_ranks or self._reads_gradients:
            synchronised.accumulation.never_again()

        def call(*args: Any, **kwargs: Any) -> Any:
            trains = torch.is_grad_enabled() and model.training
            if torch.compiler.is_compiling() or synchronised.is_inside:
                return synchronised(*args, **kwargs)
            if trains:
                self.lineages.part_ways()
            self._lane.phase("forward" if trains else "evaluation")
            is_due = synchronised.accumulation.is_due(is_last_batch=self._loops.is_last)
            synchronised.prepare(trains=trains, is_due=is_due, may_wrap=not self._exchange.is_in_pass)
            self._exchange.is_in_pass |= torch.is_grad_enabled()
            with self._watching.forward():
                return synchronised(*args, **kwargs)

        call.inner = inner  # type: ignore[attr-defined]
        return call

    def _on_batch(self, batch: Any | None) -> None:
        if batch is None:
            self._stop_here()
            self._lane.is_done_with_batch()
        else:
            self._lane.took(batch)

    # --- steps -------------------------------------------------------------------------------------------------------

    def _run_backward(self, original: Any) -> Any:
        @functools.wraps(original)
        def run_backward(outputs: Any, gradients: Any, *args: Any, **kwargs: Any) -> Any:
            if is_traced(outputs) or not self._patches.are_on:
                return original(outputs, gradients, *args, **kwargs)
            accumulates = bool(kwargs.get("accumulate_grad"))
            is_plain = not accumulates and not (
                len(args) > 1 and args[1]
            )  # torch.autograd.grad without a graph
            inputs = args[2] if len(args) > 2 else ()
            for_parameters = is_plain and any(self._exchange.knows(each) for each in inputs)
            if not (accumulates or for_parameters):
                return original(outputs, gradients, *args, **kwargs)
            self._begin_backward(outputs)
            if self._loops.weight != 1.0:
                gradients = _weighted(outputs, gradients, self._loops.weight)
            if not self._is_shared:
                return original(outputs, gradients, *args, **kwargs)
            marks = self._exchange.before_backward(outputs)
            with self._watching.backward():
                result = original(outputs, gradients, *args, **kwargs)
            if accumulates:
                self._exchange.after_backward(marks, is_last_batch=self._loops.is_last)
            else:
                self._exchange.means_of(result, inputs)
            return result

        return run_backward

    def _begin_backward(self, outputs: Any) -> None:
        self._loops.backwards += 1
        if self._is_shared and self._knows_ranks:
            self._loops.check_data()
        if self._is_shared and not (self._loops.has_share or self._knows_ranks):
            if self._loops.whole is not None:
                raise self._loops.in_eval_mode(self._loops.whole)
            raise AccelError(
                f"This cell on {self._world_size} ranks",
                because="it trains on batches that come from no DataLoader, so every rank would train on the same ones",
                do="Take the batches from a DataLoader, or each rank's part yourself: x[rank::world_size], with "
                "torch.distributed.get_rank() and get_world_size().",
            )
        watches = self._loops.backwards <= _PASSES_TO_WATCH
        if self._is_stepping or (watches and reads_gradients(running_code())):
            for each in self._exchange.models:
                each.accumulation.never_again()
        self._lane.phase("backward")
        if len(outputs) == 1:
            self._loss.passed(outputs[0])

    def _after_flush(self, original: Any) -> Any:
        @functools.wraps(original)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._patches.are_on:
                self._exchange.flush()
            return original(*args, **kwargs)

        return call

    def _holds(self, tensor: Any) -> bool:
        return self._patches.are_on and self._exchange.holds(tensor)

    def _stop_here(self) -> None:
        """Where the loop comes round again: what it does after the optimizer's step belongs to that step."""
        if self._is_to_stop:
            raise RunStopped

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._leading.may_lead(optimizer):
            self._stop_here()  # of a loop that takes its batches from no loader
        self._lane.phase("optimizer")
        self._is_stepping = True
        if self._is_shared:
            if not self._knows_ranks:
                self._loops.before_step()
            self._exchange.before_step(optimizer)
        self._watching.optimizer_begins()

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._is_stepping = False
        self._watching.optimizer_ended()
        if self._is_shared:
            self._exchange.after_step(optimizer)
        self._note(optimizer)
        if is_inside_another_step(sys._getframe(1)):
            return
        if self._leading.leads(optimizer):
            self._is_to_stop = self._lane.stepped(self._loss.of_step())
            self._watching.step_ended(self._lane.steps)
        else:
            self._loss.other_stepped()

    def _note(self, optimizer: Any) -> None:
        count = sum(len(group["params"]) for group in optimizer.param_groups)
        if self._stepped.get(id(optimizer)) != count:
            self._stepped[id(optimizer)] = count
            trained = (p for group in optimizer.param_groups for p in group["params"] if p.requires_grad)
            self.stepped |= {id(optimizer), *map(id, trained)}


def _weighted(outputs: Any, gradients: Any, weight: float) -> tuple[Any, ...]:
    """Gradients to begin with, of losses that are means over this rank's part."""
    import torch

    def one(output: Any, gradient: Any) -> Any:
        if not isinstance(output, torch.Tensor) or output.numel() != 1:
            return gradient
        return (torch.ones_like(output) if gradient is None else gradient) * weight

    return tuple(one(output, gradient) for output, gradient in zip(outputs, gradients, strict=True))
