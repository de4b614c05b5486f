"""Make an unmodified training cell data-parallel: in one rank, while the cell runs.

A model's call is DistributedDataParallel's, a loader gives this rank's part, gradients are means over all ranks before an
optimizer steps, and random numbers of training differ from rank to rank. Objects are found as they are first used, whoever made
them.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from accel.accelerations.model_call import wrapped_call
from accel.distributed.gradient_exchange import GradientExchange
from accel.distributed.lineages import Lineages
from accel.distributed.rank_page import PHASES, RankPage
from accel.distributed.resident_memory import resident_bytes
from accel.distributed.shared_loader import SharedLoader
from accel.distributed.shares import BatchMeans
from accel.distributed.synchronised_model import SynchronisedModel
from accel.errors import AccelError
from accel.workload.discovery import Discovery

if TYPE_CHECKING:
    from accel.workload.replica import Replica

_STEPS_BETWEEN_READING_MEMORY = 20


class RunStopped(BaseException):
    """Raised in the cell, after the step that all ranks agreed on."""


class DataParallel:
    """While entered, what this rank trains is trained by all ranks together.

    >>> with DataParallel(page, rank=0, world_size=2, namespace=namespace) as parallel:
    ...     exec(code, namespace)
    >>> parallel.notes

    `loaders` names those that are shared out; empty: each that is iterated with gradients on and a model in training mode.
    """

    def __init__(
        self, page: RankPage, *, rank: int, world_size: int, namespace: dict[str, Any], batch: BatchMeans = "per-rank",
        loaders: list[str] | None = None, knows_ranks: bool = False, prepare: Callable[[Replica], None] | None = None,
    ) -> None:  # fmt: skip
        self._page, self._rank, self._world_size, self._batch = page, rank, world_size, batch
        self._namespace, self._named = namespace, loaders or []
        self._knows_ranks, self._prepare = knows_ranks, prepare
        self.lineages, self._exchange = Lineages(rank), GradientExchange()
        self._undo = ExitStack()
        self._shared: dict[int, SharedLoader] = {}
        self._models: list[Any] = []
        self._weight, self._has_share, self._backwards, self._samples = 1.0, False, 0, 0
        self._first_optimizer: Any = None
        self._loss: Any = None
        self._clock = self._since = 0.0
        self.steps, self.first_step_at = 0, float("nan")
        self.notes: list[str] = []

    def __enter__(self) -> DataParallel:
        import torch
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )
        from torch.utils.data import DataLoader

        self._undo.enter_context(Discovery(self._found, known=[]))
        self._patch(DataLoader, "__iter__", self._loader_iter)
        self._patch(DataLoader, "__len__", self._loader_len)
        self._patch(torch.autograd, "_engine_run_backward", self._run_backward)
        self._undo.callback(register_optimizer_step_pre_hook(self._before_step).remove)
        self._undo.callback(register_optimizer_step_post_hook(self._after_step).remove)
        self._page.write(self._rank, phase=PHASES.index("between"))
        self._clock = time.perf_counter()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._undo.close()
        for shared in self._shared.values():
            shared.close()
        if self._exchange.averaged_late:
            names = ", ".join(sorted(self._exchange.averaged_late))
            self.notes.append(
                f"{names}: some parameters took no part in a step, or its parts were called by themselves; those gradients were "
                "averaged after the backward pass, not during it."
            )

    def went_on(self) -> None:
        """The loop that the cell is in was led to where a checkpoint was taken: what was read on the way counts for nothing."""
        self._backwards += 1
        self._samples = 0

    # --- what is found as it is used ---------------------------------------------------------------------------------

    def _found(self, replica: Replica) -> None:
        if self._prepare is not None:
            self._prepare(replica)
        for model in replica.models.values():
            self._models.append(model)
            known = {id(p) for each in self._exchange.models for p in each.model.parameters()}
            if any(id(p) in known for p in model.parameters()):
                continue  # a part of a model that is synchronised already: its gradients are averaged before the step
            self._undo.enter_context(wrapped_call(model, functools.partial(self._synchronised, model)))

    def _synchronised(self, model: Any, inner: Callable[..., Any]) -> Callable[..., Any]:
        synchronised = SynchronisedModel(model, inner, on_bucket=self._waited)
        self._exchange.models.append(synchronised)
        self._undo.callback(synchronised.close)

        def call(*args: Any, **kwargs: Any) -> Any:
            import torch

            if torch.is_grad_enabled() and model.training:
                self.lineages.part_ways()
                self._phase("forward")
            else:
                self._phase("evaluation")
            return synchronised(*args, **kwargs)

        call.inner = inner  # type: ignore[attr-defined]
        return call

    def _waited(self, seconds: float) -> None:
        self._page.add(self._rank, communication_s=seconds)

    # --- loaders -----------------------------------------------------------------------------------------------------

    def _loader_iter(self, original: Any) -> Any:
        @functools.wraps(original)
        def __iter__(loader: Any) -> Any:
            if self._world_size == 1 and not (self._named or self.lineages.batches_over):
                return original(loader)
            trains = self._trains_with(loader)
            shared = self._shared.get(id(loader))
            if not trains:
                if shared is not None and shared.sampling is not None:
                    shared.sampling.is_shared = False
                return original(loader)
            if shared is None:
                shared = self._shared[id(loader)] = SharedLoader(
                    loader, self.lineages, rank=self._rank, world_size=self._world_size, batch=self._batch
                )
            if shared.sampling is not None:
                shared.sampling.is_shared = True
            self.lineages.part_ways()
            return _Batches(self._own_batches(shared.batches(original), loader), loader)

        return __iter__

    def _loader_len(self, original: Any) -> Any:
        @functools.wraps(original)
        def __len__(loader: Any) -> int:
            if id(loader) not in self._shared and self._world_size > 1 and self._trains_with(loader):
                self._shared[id(loader)] = SharedLoader(
                    loader, self.lineages, rank=self._rank, world_size=self._world_size, batch=self._batch
                )
            count: int = original(loader)
            return count

        return __len__

    def _own_batches(self, batches: Iterator[tuple[Any, float]], loader: Any) -> Iterator[Any]:
        before = self._backwards
        self._has_share = True
        for batch, weight in batches:
            self._weight = weight
            self._samples += _samples_in(batch)
            yield batch
            self._phase("data")
        self._weight = 1.0
        if self._backwards == before:
            raise AccelError(
                f"A loop over {self._name_of(loader)} with a part of it on each rank",
                because="nothing was trained in it, so what it computed is of that part alone",
                do="Put the model into eval mode or the loop under torch.no_grad(), as for evaluation, or name "
                "the loaders that train: --loaders train_loader.",
            )

    def _trains_with(self, loader: Any) -> bool:
        """Whether a loop over this loader is training: by name, else by the mode that the models are in."""
        import torch

        if self._named:
            return self._name_of(loader) in self._named
        known = [*self._models, *_models_in(self._namespace)]
        trainable = [model for model in known if any(p.requires_grad for p in model.parameters())]
        return torch.is_grad_enabled() and (
            not trainable or any(model.training for model in trainable)
        )  # fmt: skip

    def _name_of(self, loader: Any) -> str:
        return next((name for name, value in self._namespace.items() if value is loader), "a DataLoader")

    # --- steps -------------------------------------------------------------------------------------------------------

    def _run_backward(self, original: Any) -> Any:
        @functools.wraps(original)
        def run_backward(outputs: Any, gradients: Any, *args: Any, **kwargs: Any) -> Any:
            import torch
            from torch._subclasses import FakeTensor
            from torch._subclasses.functional_tensor import FunctionalTensor

            if len(outputs) and isinstance(outputs[0], (FunctionalTensor, FakeTensor)):
                return original(outputs, gradients, *args, **kwargs)  # torch.compile traces
            self._backwards += 1
            self._exchange.before_backward()
            if not (self._has_share or self._knows_ranks or self._world_size == 1):
                raise AccelError(
                    f"This cell on {self._world_size} ranks",
                    because="it trains on batches that come from no DataLoader, so every rank would train on the same ones",
                    do="Take the batches from a DataLoader, or each rank's part yourself: x[rank::world_size], with "
                    "torch.distributed.get_rank() and get_world_size().",
                )
            self._phase("backward")
            if len(outputs) == 1 and outputs[0].numel() == 1 and kwargs.get("accumulate_grad"):
                if self._weight != 1.0:
                    ones = torch.ones_like(outputs[0]) if gradients[0] is None else gradients[0]
                    gradients = (ones * self._weight,)
                self._loss = outputs[0].detach()
            return original(outputs, gradients, *args, **kwargs)

        return run_backward

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._phase("optimizer")
        if self._world_size > 1:
            self._exchange.before_step(optimizer)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._exchange.after_step()
        if self._first_optimizer is None:
            self._first_optimizer = optimizer
        if optimizer is not self._first_optimizer:
            return
        now = time.perf_counter()
        self.steps += 1
        if self.steps == 1:
            self.first_step_at = time.monotonic()
        self._tell(now)
        self._clock = now
        if self._page.stops_after(self._rank, self.steps):
            raise RunStopped

    def _tell(self, now: float) -> None:
        if self._loss is not None and (self._loss.device.type == "cpu" or self.steps % 20 == 1):
            self._page.write(self._rank, loss=float(self._loss))  # on a GPU this waits for it
        self._page.write(self._rank, step=self.steps, step_ms=(now - self._clock) * 1e3)
        self._page.add(self._rank, seconds=now - self._clock, samples=self._samples, beats=1)
        self._samples = 0
        if self.steps % _STEPS_BETWEEN_READING_MEMORY == 1:
            self._page.write(self._rank, memory_bytes=resident_bytes())

    def _phase(self, name: str) -> None:
        self._page.write(self._rank, phase=PHASES.index(name))
        self._page.add(self._rank, beats=1)

    def _patch(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        original = vars(owner)[name]
        setattr(owner, name, make(original))
        self._undo.callback(setattr, owner, name, original)


class _Batches:
    """An iterator over a rank's batches that knows how many there are."""

    def __init__(self, batches: Iterator[Any], loader: Any) -> None:
        self._batches, self._loader = batches, loader

    def __iter__(self) -> _Batches:
        return self

    def __next__(self) -> Any:
        return next(self._batches)

    def __len__(self) -> int:
        return len(self._loader)


def _models_in(namespace: dict[str, Any]) -> list[Any]:
    from torch import nn

    return [value for value in list(namespace.values()) if isinstance(value, nn.Module)]


def _samples_in(batch: Any) -> int:
    """The length of the first tensor in a batch, wherever it is; 0 where there is none."""
    from torch.utils._pytree import tree_leaves

    sizes = (leaf.shape[0] for leaf in tree_leaves(batch) if hasattr(leaf, "shape") and len(leaf.shape))
    return int(next(sizes, 0))
