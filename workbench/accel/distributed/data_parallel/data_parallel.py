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
from accel.distributed.data_parallel.averaging import weighted
from accel.distributed.data_parallel.bucket_exchange import BucketExchange
from accel.distributed.data_parallel.found_models import FoundModels
from accel.distributed.data_parallel.gradient_exchange import GradientExchange
from accel.distributed.data_parallel.gradient_readers import (
    code_in,
    reads_gradients,
    running_code,
)
from accel.distributed.data_parallel.graph_leaves import named_leaves
from accel.distributed.data_parallel.lineages import Lineages
from accel.distributed.data_parallel.one_model import OneModel
from accel.distributed.data_parallel.own_distribution import (
    refuse_own_pieces,
    refuse_without_effect,
    refusing,
    telling,
)
from accel.distributed.data_parallel.parted import RunStopped
from accel.distributed.data_parallel.shared_loops import SharedLoops
from accel.distributed.data_parallel.step_loss import StepLoss
from accel.distributed.data_parallel.step_watching import StepWatching
from accel.distributed.data_parallel.synchronised_model import SynchronisedModel
from accel.distributed.data_parallel.synchronised_norm import normalising_together
from accel.distributed.data_parallel.training_notes import (
    notes_of,
    notes_of_buckets,
    notes_of_loops,
    notes_of_own_distribution,
)
from accel.distributed.first_step.verdict import FirstStepCheck
from accel.distributed.ranks.rank_page import RankPage
from accel.distributed.ranks.rank_words import RankWords
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
    from accel.distributed.first_step.first_step import FirstStep
    from accel.plans.plan import Plan
    from accel.workload.replica import Replica

_PASSES_TO_WATCH = 8


class DataParallel:
    """While entered, what this rank trains is trained by all ranks together.

    >>> with DataParallel(page, rank=0, world_size=2, namespace=namespace, options=RunOptions()) as parallel:
    ...     exec(code, namespace)
    >>> parallel.notes

    Without names of loaders in the options, each is shared out that is iterated with gradients on and a model in training mode.
    `prepare` may see an object twice. With `words` the ranks compare where they are, and stop where one is elsewhere.
    """

    def __init__(
        self, page: RankPage, *, rank: int, world_size: int, namespace: dict[str, Any], options: RunOptions,
        plan: Plan | None = None, knows_ranks: bool = False, prepare: Callable[[Replica], None] | None = None,
        first_step: FirstStep | None = None, words: RankWords | None = None,
    ) -> None:  # fmt: skip
        self._world_size, self._namespace, self._options, self._plan = world_size, namespace, options, plan
        self._knows_ranks, self._prepare = knows_ranks, prepare
        self._exchanges_before_step = accumulates(plan)
        self._first_step = first_step
        self.lineages = first_step.lineages if first_step is not None else Lineages(rank)
        self._lane = StepLane(page, rank, steps=options.steps)
        self._watching = StepWatching(options)
        self._buckets = BucketExchange(options, on_wait=self._lane.waited, recorder=self._watching.recorder)
        self._exchange = GradientExchange(world_size, on_wait=self._lane.waited)
        self._loops = SharedLoops(
            self.lineages, rank=rank, world_size=world_size, batch=options.batch, named=list(options.loaders),
            namespace=namespace, on_batch=self._on_batch, before_share=self._before_share,
            on_evaluation=self._lane.evaluates,
        )  # fmt: skip
        self._one_model = OneModel(words, self._loops.whereabouts, self._exchange, self._buckets, self._lane.waited)  # fmt: skip
        self._reads_gradients = reads_gradients(code_in(namespace))
        self._patches, self._undo = AttributePatches(), ExitStack()
        self._found_models = FoundModels(
            on_earlier=self._forget_model, on_part=functools.partial(self._forget_model, is_part=True)
        )  # fmt: skip
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
    def check(self) -> FirstStepCheck | None:
        """What comparing the first step gave; None where it was not asked for."""
        if self._first_step is None:
            return None
        return self._first_step.check or FirstStepCheck("not checked", reason="no optimizer stepped")

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
                self._one_model.hear_collectives(self._patches, module)
                self._patches.wrap(module, "all_reduce", refusing(self._holds))
            if self._options.sync_batchnorm:
                self._patches.wrap(
                    torch.nn.functional, "batch_norm", normalising_together(self._loops.has_own_samples)
                )
            self._patches.wrap(clip_grad, "_group_tensors_by_device_and_dtype", self._after_flush)
            self._patches.wrap(torch.amp.GradScaler, "_unscale_grads_", self._after_flush)
            self._exchange.add(named_leaves(self._namespace))
        if self._world_size > 1 or self.lineages.stands_for_ranks:
            self._undo.enter_context(self.lineages.seeded_alike())
            self.lineages.begin_alike(self._patches)
        self._undo.enter_context(self._leading)
        before_step(self._patches, self._before_step)
        after_step(self._patches, self._after_step)
        self._lane.phase("between")
        return self

    def __exit__(self, kind: type[BaseException] | None, *exc_info: object) -> None:
        self._loops.explain(exc_info[0] if exc_info else None)
        self._undo.callback(self._found_models.close)
        self._undo.close()
        if kind is None or issubclass(kind, RunStopped):
            self.communication = self._watching.finish(self._exchange, self._world_size)
        if self.only_watches:
            self.notes += notes_of_own_distribution(self._loops)
        elif self._world_size > 1:
            is_compared = self.check is not None and self.check.verdict != "not checked"
            self.notes += self._one_model.notes
            self.notes += notes_of(self._exchange, self._namespace, self._options, is_compared=is_compared)
            self.notes += notes_of_loops(self._loops)
            self.notes += notes_of_buckets(self._exchange, self._buckets)

    @property
    def models(self) -> list[Any]:
        """Those that were found in use."""
        return self._loops.models

    def ends(self) -> None:
        """The cell is over: on this rank as on all others."""
        self._first_turn_over()
        self._one_model.ends(is_agreed=self._is_to_stop)

    def beat(self) -> None:
        """A sign of life, when training is over and the rank evaluates."""
        self._lane.phase("evaluation")

    def went_on(self) -> None:
        """The loop that the cell is in was led to where a checkpoint was taken: what was read on the way counts for nothing."""
        self._loops.backwards += 1
        self._lane.forget_samples()
        self._no_first_step("the run went on from a checkpoint")

    def only_watch(self) -> None:
        """The cell distributes its training itself, as a script for torchrun does: nothing is shared out or averaged any more."""
        if not (self._is_shared and self._patches.are_on):
            return
        refuse_without_effect(self._options, self._plan)
        self._no_first_step("the cell distributes its training itself")
        self._is_shared = False
        self._loops.only_watch()
        self._one_model.leave_alone()
        self._found_models.close()
        self._exchange.forget()

    def run_begins(self) -> None:
        """The cell is run again: a model that it builds takes the place of one of its class that an earlier run built."""
        self._found_models.run += 1
        self._leading.begins()
        self._loops.run_begins()

    def _found(self, replica: Replica) -> None:
        if self._prepare is not None:
            self._prepare(replica)
        for model in replica.models.values():
            if self._is_shared:
                refuse_own_pieces(model)
            self._found_models.make_room_for(model)
            self._loops.models.append(model)
            known = {id(p) for each in self._exchange.models for p in each.parameters}
            if any(id(p) in known for p in model.parameters()):
                continue  # what else it has is found in the graph of its loss
            wrap = self._synchronised if self._is_shared else self._watched
            taken = self._found_models.add(model)
            taken.enter_context(wrapped_call(model, functools.partial(wrap, model, taken)))

    def _before_share(self, loader: Any) -> None:
        """A loader is about to be shared out: what a plan changes of it has to be there before."""
        from accel.workload.replica import Replica

        if self._prepare is not None:
            self._prepare(Replica(loaders={type(loader).__name__: loader}, is_process_wide=False))

    def _forget_model(self, model: Any, *, is_part: bool = False) -> None:
        self._exchange.remove(model, is_part=is_part)
        self._loops.models = [each for each in self._loops.models if each is not model]

    def _watched(self, model: Any, taken: ExitStack, inner: Callable[..., Any]) -> Callable[..., Any]:
        """One rank alone: nothing but its phases."""
        import torch

        def call(*args: Any, **kwargs: Any) -> Any:
            trains = torch.is_grad_enabled() and model.training
            if trains and self.lineages.stands_for_ranks and (self._knows_ranks or self._loops.is_in_part):
                self.lineages.part_ways()
            self._lane.phase("forward" if trains else "evaluation")
            return inner(*args, **kwargs)

        call.inner = inner  # type: ignore[attr-defined]
        return call

    def _synchronised(self, model: Any, taken: ExitStack, inner: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        synchronised = SynchronisedModel(model, inner, self._buckets, self._one_model.meet)
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
            if trains and (self._knows_ranks or self._loops.is_in_part):  # others only look what it gives
                self.lineages.part_ways()
            self._loops.called(with_gradients=torch.is_grad_enabled())
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
            self._first_turn_over()
            self._stop_here()
            self._lane.is_done_with_batch()
        else:
            self._lane.took(batch)
            if self._first_step is not None:
                self._first_step.took(batch)

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
            if is_plain and inputs and self._is_shared and self._loops.has_share:
                self._exchange.look(outputs)
            for_parameters = is_plain and any(self._exchange.knows(each) for each in inputs)
            if not (accumulates or for_parameters):
                return original(outputs, gradients, *args, **kwargs)
            self._begin_backward(outputs)
            if self._loops.weight != 1.0:
                gradients = weighted(outputs, gradients, self._loops.weight)
            if not self._is_shared:
                return original(outputs, gradients, *args, **kwargs)
            self._one_model.pass_begins()
            marks = self._exchange.before_backward(outputs)
            with self._watching.backward():
                result = original(outputs, gradients, *args, **kwargs)
            self._one_model.go_on()
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
                raise self._loops.taken_for_evaluation(self._loops.whole)
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

    def _first_turn_over(self) -> None:
        """The loop comes round, or its optimizer is about to step again: what stepped until now is compared, once."""
        first = self._first_step
        if first is None or first.check is not None or not self._lane.steps:
            return
        self._one_model.meet("check")
        with self._lane.standing_still():
            first.is_over(self._loops.models)

    def _no_first_step(self, reason: str) -> None:
        if self._first_step is not None:
            self._first_step.is_not(reason)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._leading.may_lead(optimizer):
            self._first_turn_over()
            self._stop_here()  # of a loop that takes its batches from no loader
        self._lane.phase("optimizer")
        self._is_stepping = True
        if self._is_shared:
            if not self._knows_ranks:
                self._loops.before_step()
            self._one_model.step_begins(optimizer, sys._getframe(1))
            self._exchange.before_step(optimizer)
        if self._first_step is not None:
            self._first_step.begins(optimizer)
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
