"""DistributedDataParallel round a model's call, in place: the user's model, its names and its optimizer stay as they are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from torch import nn


class SynchronisedModel:
    """Calls `inner` as the module of a DistributedDataParallel, so that gradients are averaged over all ranks in backward.

    >>> with wrapped_call(model, lambda inner: SynchronisedModel(model, inner, exchange)):
    ...     model(x).sum().backward()

    Making one sends rank 0's parameters and buffers to all (Li et al., *PyTorch Distributed*, VLDB 2020). Where parameters were
    left without a gradient, DDP waits for them in vain: `is_complete` stays false, the gradients are averaged before the step of
    the optimizer (`gradient_exchange.py`), and from then on DDP looks for unused parameters.
    """

    def __init__(
        self, model: nn.Module, inner: Callable[..., Any], *, on_bucket: Callable[[float], None]
    ) -> None:
        self.model, self.inner = model, inner
        self._on_bucket = on_bucket
        self._finds_unused = False
        self._is_inside = False
        self._was_called = False
        self.is_complete = False  # the gradients of its last backward pass are averaged, all of them
        self.ddp = self._wrapped()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_inside:  # DDP calls the module; a recursive model calls itself
            return self.inner(*args, **kwargs)
        self._is_inside, self._was_called = True, True
        try:
            return self.ddp(*args, **kwargs)
        finally:
            self._is_inside = False

    def backward_begins(self) -> None:
        """New gradients are to come, if it was called."""
        if self._was_called:
            self._was_called = self.is_complete = False

    def step_is_over(self) -> None:
        """The gradients are used up."""
        self.is_complete = False

    def look_for_unused(self) -> None:
        """From the next call on: some parameters take no part in every step."""
        if not self._finds_unused:
            self._finds_unused = True
            self.ddp = self._wrapped()

    def _wrapped(self) -> Any:
        from torch.nn.parallel import DistributedDataParallel

        ddp = DistributedDataParallel(self.model, find_unused_parameters=self._finds_unused)
        ddp.register_comm_hook(None, lambda state, bucket: self._average(bucket))
        return ddp

    def _average(self, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """What DDP itself does with a bucket, and we hear of it: its mean over all ranks."""
        import torch.distributed as dist

        tensor = bucket.buffer()
        tensor.div_(dist.get_world_size())
        is_last, launched = bucket.is_last(), time.perf_counter()
        work = dist.all_reduce(tensor, async_op=True)

        def done(future: Any) -> torch.Tensor:
            if is_last:
                self.is_complete = True
                self._on_bucket(time.perf_counter() - launched)
            result: torch.Tensor = future.value()[0]
            return result

        return work.get_future().then(done)

    def close(self) -> None:
        """Take DDP's hooks off the parameters."""
        del self.ddp
