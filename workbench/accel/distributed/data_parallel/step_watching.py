"""Where a training reports its steps; nothing is recorded unless `--communication` was asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

from accel.distributed.communication.communication_recorder import CommunicationRecorder
from accel.distributed.communication.communication_times import CommunicationTimes
from accel.distributed.data_parallel.gradient_compression import compression_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from accel.distributed.cells.run_options import RunOptions
    from accel.distributed.data_parallel.gradient_exchange import GradientExchange

_UNRECORDED: AbstractContextManager[None] = nullcontext()


class StepWatching:
    """The recorder of a run, or none.

    >>> watching = StepWatching(RunOptions(communication=True))
    >>> with watching.backward():
    ...     loss.backward()
    >>> times = watching.finish(exchange, world_size=2)
    """

    def __init__(self, options: RunOptions) -> None:
        settles = compression_of(options.compress).settles_after
        self.recorder = CommunicationRecorder(settles) if options.communication else None

    def forward(self) -> AbstractContextManager[None]:
        """While a model is called."""
        return self.recorder.forward() if self.recorder is not None else _UNRECORDED

    def backward(self) -> AbstractContextManager[None]:
        """While gradients are computed."""
        return self._backward(self.recorder) if self.recorder is not None else _UNRECORDED

    def optimizer_begins(self) -> None:
        """Before an optimizer's step."""
        if self.recorder is not None:
            self.recorder.optimizer_begins()

    def optimizer_ended(self) -> None:
        """After it."""
        if self.recorder is not None:
            self.recorder.optimizer_ended()

    def step_ended(self, number: int) -> None:
        """The optimizer that leads has stepped."""
        if self.recorder is not None:
            self.recorder.step_ended(number)

    def finish(self, exchange: GradientExchange, world_size: int) -> CommunicationTimes | None:
        """The cell is over, on all ranks: what was seen, and what the link does by itself; None where nothing was recorded."""
        recorder = self.recorder
        if recorder is None:
            return None
        recorder.close()
        if world_size == 1:
            return CommunicationTimes([], [], "one rank exchanges nothing")
        from accel.distributed.ranks.bare_all_reduces import bare_all_reduces
        from accel.distributed.ranks.device_clocks import clock_of

        steps = recorder.times()
        sizes = {bucket.sent_bytes for step in steps for each in step.passes for bucket in each.buckets}
        of_models: list[Any] = [p for each in exchange.models for p in each.parameters]
        bare = []
        if of_models:
            clock = recorder.clock or clock_of(of_models[0])
            bare = bare_all_reduces(sizes, clock, of_models[0].device)
        return CommunicationTimes(steps, bare, "" if steps else _why_none(exchange, recorder))

    @staticmethod
    @contextmanager
    def _backward(recorder: CommunicationRecorder) -> Iterator[None]:
        recorder.backward_begins()
        yield
        recorder.backward_ended()


def _why_none(exchange: GradientExchange, recorder: CommunicationRecorder) -> str:
    if not exchange.models:
        return "no model was called, and gradients of other tensors are averaged after the backward pass, without buckets"
    if exchange.after_pass:
        names = ", ".join(sorted(exchange.after_pass))
        return (
            f"some parameters of {names} took no part in a step, so gradients were averaged after the backward pass, without "
            "buckets"
        )
    if recorder.passes_seen:
        return (
            f"the run had too few steps: DistributedDataParallel exchanged the gradients of {recorder.passes_seen}, and those "
            f"are watched that come after {recorder.settles_after}"
        )
    return (
        "DistributedDataParallel exchanged nothing: it takes over once all parameters got a gradient in two backward passes in "
        "a row, on every rank; until then gradients are averaged after the pass, without buckets"
    )
