"""In a worker: hold the unmodified cell at each step boundary until the kernel hands out the next token.

A step ends at the post-hook of the optimizer that leads (`leading_optimizer.py`) or, for hand-written updates, at the end
of a backward pass. The gate times the step, remembers its loss, and waits; leaving the cell is an exception that
`except Exception` in the user's code cannot swallow. While a variant waits its loader workers are frozen: they would fill
its queue for free, on the cores of the variant that is being timed.
"""

from __future__ import annotations

import resource
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from accel.hooks.attribute_patches import AttributePatches
from accel.hooks.leading_optimizer import LeadingOptimizer
from accel.hooks.training_loop import (
    after_step,
    is_inside_another_step,
    is_traced,
    wrap_backward,
    wrap_iterator,
)
from accel.processes.channel import Channel
from accel.processes.process_tree import forked_children, signal_all
from accel.profiling.tensor_peak import TensorPeak
from accel.workers.messages import EffectRead, Evaluate, Finish, ReadEffect, StepsDone, StepToken
from accel.workers.sample_count import SampleCount
from accel.workers.step_clock import StepClock
from accel.workload.applied_time import applied_ns


class CellIsOver(BaseException):
    """Raised inside the cell when the kernel wants no more steps."""


class StepGate:
    """Context manager round the cell's run; steps only when told to.

    >>> with StepGate(channel, boundary="optimizer", read_effect=lambda: EffectRead([])) as gate:
    ...     gate.wait()
    ...     exec(code, namespace)
    """

    def __init__(
        self, channel: Channel, *, boundary: str, read_effect: Callable[[], EffectRead],
        evaluate: Callable[[], msgspec.Struct] | None = None,
        samples_per_batch: int = 0, device: str = "", memory: TensorPeak | None = None,
    ) -> None:  # fmt: skip
        self._channel, self._boundary, self._read_effect = channel, boundary, read_effect
        self._evaluate, self._memory = evaluate, memory
        self._patches = AttributePatches()
        self._leading = LeadingOptimizer()
        self._losses_of_step: list[Any] = []
        self._granted = 0
        self._clock = StepClock(device)
        self._losses: list[Any] = []
        self._sample_count = SampleCount(samples_per_batch, leave_out=self._clock.leave_out)
        self._samples: list[int] = []
        self._began_ns = self._began_applied = 0  # of this run of the cell, until its first loader is read
        self.steps_done = 0
        self.is_over = False

    def __enter__(self) -> StepGate:
        wrap_backward(self._patches, self._run_backward)
        wrap_iterator(self._patches, self._make_iterator)
        if self._boundary == "optimizer":
            self._patches.with_them(self._leading.__enter__().__exit__)
            after_step(self._patches, self._optimizer_stepped)
        self._patches.with_them(self._sample_count.__enter__().__exit__)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._patches.take_back()

    def _run_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run_backward(outputs: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(outputs, *args, **kwargs)
            ended_ns = time.perf_counter_ns()
            if is_traced(outputs) or not self._patches.are_on:
                return result
            if len(outputs) and outputs[0].numel() == 1:
                self._losses_of_step.append(_kept(outputs[0]))
            self._sample_count.backward()
            if self._boundary == "backward":
                self._step_is_over(ended_ns)
            else:
                self._clock.leave_out(ended_ns)
            return result

        return run_backward

    def cell_begins(self) -> None:
        """The cell starts, perhaps again: an optimizer built now becomes the leading one; building is not part of a step."""
        self._leading.begins()
        self._began_ns, self._began_applied = time.perf_counter_ns(), applied_ns()

    def _make_iterator(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def make_iterator(loader: Any) -> Any:
            if self._began_ns and self.steps_done:
                self._clock.leave_out(self._began_ns + applied_ns() - self._began_applied)
            self._began_ns = 0
            return original(loader)

        return make_iterator

    def cell_ended(self) -> None:
        """The cell is over and is not run again: say so, and answer questions until told to finish."""
        while True:
            self._report(cell_ended=True)
            self.wait()

    def wait(self) -> None:
        """Wait for a token; answers questions about the effect while it waits; raises CellIsOver when told to finish."""
        frozen = forked_children()
        signal_all(frozen, signal.SIGSTOP)
        try:
            token = self._next_token()
        finally:
            signal_all(frozen, signal.SIGCONT)
        self._usage = resource.getrusage(resource.RUSAGE_SELF)
        self._granted = token.count
        if token.watches_memory and self._memory is not None:
            self._memory.begin()
        self._clock.begin(token.settle)

    def _next_token(self) -> StepToken:
        while True:
            message, _, _ = self._channel.receive()
            if isinstance(message, StepToken):
                return message
            if isinstance(message, ReadEffect):
                self._channel.send(self._read_effect())
            elif isinstance(message, Evaluate) and self._evaluate is not None:
                with self._sample_count.paused():
                    answer = self._evaluate()
                self._channel.send(answer)
            elif isinstance(message, Finish):
                self.is_over = True
                raise CellIsOver

    def _optimizer_stepped(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        ended_ns = time.perf_counter_ns()
        if is_inside_another_step(sys._getframe(1)) or not self._leading.leads(optimizer):
            self._clock.leave_out(ended_ns)
        else:
            self._step_is_over(ended_ns)

    def _step_is_over(self, ended_ns: int) -> None:
        if self.is_over:  # a bare `except` in the cell swallowed it
            raise CellIsOver
        self._clock.step(ended_ns)
        self._began_ns = 0
        if self._memory is not None:
            self._memory.step()
        self._losses.append(self._losses_of_step)
        self._losses_of_step = []
        self._samples.append(self._sample_count.step())
        self.steps_done += 1
        self._granted -= 1
        if self._granted <= 0:
            self._report()
            self.wait()
        else:
            self._clock.resume()

    def _report(self, *, cell_ended: bool = False) -> None:
        wall_ns = self._clock.end()
        if self._memory is not None:
            self._memory.end()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        signal_all(
            forked_children(), signal.SIGSTOP
        )  # before the kernel may stop this process (`Worker.receive`)
        self._channel.send(
            StepsDone(
                wall_ns=wall_ns,
                losses=[_mean(losses) for losses in self._losses],
                samples=self._samples,
                minor_faults=usage.ru_minflt - self._usage.ru_minflt,
                cell_ended=cell_ended,
                apart_ns=self._clock.apart_ns,
            )
        )
        self._losses, self._samples = [], []


def _kept(loss: Any) -> Any:
    """A loss that can be read when the block is over. On the CPU it is read at once: a tensor that a plain loop would let go
    lies on top of the heap, where it keeps glibc from giving memory back, and steps took a third of their page faults. On
    a GPU it is a copy, since a CUDA graph writes the next one into its place."""
    if loss.device.type == "cpu":
        return float(loss.detach())
    return loss.detach().clone() if loss.is_cuda else loss.detach()


def _mean(losses: list[Any]) -> float | None:
    """Mean over the micro-batches of a step; None where no scalar loss was seen or it is not a number JSON can carry."""
    values = [float(loss) for loss in losses]
    mean = sum(values) / len(values) if values else float("nan")
    return mean if mean == mean and abs(mean) != float("inf") else None
