"""How long the steps of a block take, without making the device wait in between.

Where a GPU computes, the CPU runs ahead: it prepares the next batch while the GPU is at this one. Waiting for the GPU after
each step would take that away, and what saves time on the CPU would seem to save the step's. So the GPU is waited for at
the end of a block only, and the time of the steps that count is that between two events on the GPU itself.
"""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from accel.workload.applied_time import applied_ns


class StepClock:
    """Times the steps of one block after the other.

    >>> clock = StepClock(); clock.begin(settle=2)
    >>> clock.step(); clock.resume(); clock.step(); clock.resume(); clock.step()
    >>> clock.end()
    [20123456, 19876543, 20001234]

    On the CPU each step has a time of its own. On a GPU (`device`, default: the current one) those after the first `settle`
    share theirs evenly. What applying a plan took between steps is in none of them: `apart_ns` has it, a number for each step.
    """

    def __init__(self, device: str = "") -> None:
        import torch

        self._cuda: Any = torch.cuda
        self._thread = threading.get_ident()
        self._device = device if device.startswith("cuda") else ""  # else the current one, if any is in use
        self.begin(settle=0)

    def begin(self, settle: int) -> None:
        """A block begins, whose first `settle` steps are taken but do not count."""
        self._wall_ns: list[int] = []
        self.apart_ns: list[int] = []
        self._settle = settle
        self._counts_from = None if settle else self._event()
        self.resume()

    def resume(self) -> None:
        """The next step begins: what was done since the last one ended is no part of it."""
        self._applied, self._left_out_ns = applied_ns(), 0
        self._began = time.perf_counter_ns()

    def leave_out(self, since_ns: int) -> None:
        """What has gone on since then was watching, which a plain loop does not pay for: of a step of 0.3 ms it was a tenth.

        In other threads it went on beside the step.
        """
        if threading.get_ident() == self._thread:
            self._left_out_ns += time.perf_counter_ns() - since_ns

    def step(self, ended_ns: int | None = None) -> None:
        """A step has ended, as far as the CPU is concerned: now, or a little ago."""
        ended_ns = time.perf_counter_ns() if ended_ns is None else ended_ns
        self.apart_ns.append(applied_ns() - self._applied)
        self._wall_ns.append(ended_ns - self._began - self.apart_ns[-1] - self._left_out_ns)
        if len(self._wall_ns) == self._settle:
            self._counts_from = self._event()

    def end(self) -> list[int]:
        """The block ends when the GPU has done its part too: nanoseconds of each step."""
        ended, began = self._event(), time.perf_counter_ns()
        if ended is None:
            return self._wall_ns
        with self._on_device():
            self._cuda.synchronize()
        counted = len(self._wall_ns) - self._settle
        if self._counts_from is None:  # CUDA began in this very block, or it ended before steps counted
            self._wall_ns[-1:] = [last + time.perf_counter_ns() - began for last in self._wall_ns[-1:]]
        elif counted > 0:
            ns = self._counts_from.elapsed_time(ended) * 1e6 - sum(self.apart_ns[self._settle :])
            self._wall_ns[self._settle :] = [round(ns / counted)] * counted
        return self._wall_ns

    def _event(self) -> Any:
        """A mark in what the GPU has been given to do; None where none is in use."""
        if not self._cuda.is_initialized():
            return None
        with self._on_device():
            event = self._cuda.Event(enable_timing=True)
            event.record()
        return event

    def _on_device(self) -> AbstractContextManager[Any]:
        return self._cuda.device(self._device) if self._device else nullcontext()
