"""DistributedDataParallel as a run wants it: how large its buckets are, and how each is made the mean over all ranks."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from accel.distributed.data_parallel.gradient_compression import compression_of

if TYPE_CHECKING:
    import torch
    from torch import nn

    from accel.distributed.cells.run_options import RunOptions
    from accel.distributed.communication.communication_recorder import CommunicationRecorder


class BucketExchange:
    """Puts DDP round models, and hears of each bucket that DDP sends.

    >>> exchange = BucketExchange(RunOptions(bucket_mb=4), on_wait=lane.waited)
    >>> ddp = exchange.wrapped(model, on_complete=print)

    `on_wait` gets the seconds that this rank could do nothing but wait; `on_complete` is called when all gradients of a pass are
    means.
    """

    def __init__(
        self, options: RunOptions, *, on_wait: Callable[[float], None], recorder: CommunicationRecorder | None = None,
    ) -> None:  # fmt: skip
        self.options, self.recorder = options, recorder
        self.compression = compression_of(options.compress)
        self.passes = self.compressed = 0  # that DDP exchanged, of all models; and not whole
        self._on_wait = on_wait
        self.may_exchange: Callable[[], bool] = lambda: (
            True
        )  # the gradients of this pass; asked once a bucket

    def wrapped(self, model: nn.Module, on_complete: Callable[[], None]) -> Any:
        """A DDP round it; parameters and buffers are alike on all ranks already."""
        from torch.nn.parallel import DistributedDataParallel

        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", "`broadcast_buffers` is deprecated", FutureWarning
            )  # no other leaves buffers alone
            ddp = DistributedDataParallel(
                model, broadcast_buffers=False, init_sync=False, static_graph=self.options.static_graph,
                bucket_cap_mb=self.options.bucket_mb,
            )  # fmt: skip
        sender, passes = self.compression.sender(), itertools.count(1)
        if self.recorder is not None:
            self.recorder.watch(model.parameters())

        def send(bucket: Any) -> torch.futures.Future[torch.Tensor]:
            if not self.may_exchange():  # this pass ends as an error
                return _as_it_is(bucket)
            is_last, launched = bucket.is_last(), time.perf_counter()
            seen = self.recorder.sends(bucket) if self.recorder is not None else None
            future, sent_bytes = sender.send(bucket)

            def done(sent: Any) -> torch.Tensor:
                if seen is not None and self.recorder is not None:
                    self.recorder.arrived(seen)
                if is_last or sender.is_in_turn:
                    self._on_wait(time.perf_counter() - launched)
                if is_last:
                    self.passes += 1
                    self.compressed += next(passes) > self.compression.plain_passes
                    on_complete()
                result: torch.Tensor = sent.value()
                return result

            mean = future.then(done)
            if seen is not None and self.recorder is not None:
                self.recorder.sent(seen, sent_bytes)
            return mean

        ddp.register_comm_hook(None, lambda state, bucket: send(bucket))
        return ddp


def _as_it_is(bucket: Any) -> torch.futures.Future[torch.Tensor]:
    from torch.futures import Future

    future: Future[torch.Tensor] = Future()
    future.set_result(bucket.buffer())
    return future
