"""Moments in a rank's work, on the CPU's clock or a GPU's."""

from __future__ import annotations

import time
from typing import Any, Protocol


class Clock(Protocol):
    """Marks moments now, and says later when they were."""

    def mark(self) -> Any:
        """This moment."""

    def settle(self) -> None:
        """Nothing is marked any more: find out when it was."""

    def seconds(self, mark: Any) -> float:
        """The moment on this machine's clock."""


class CpuClock:
    """Moments as this process comes to them.

    >>> clock = CpuClock(); mark = clock.mark(); clock.settle(); clock.seconds(mark)
    """

    def mark(self) -> float:
        """Now."""
        return time.perf_counter()

    def settle(self) -> None:
        """They are known."""

    def seconds(self, mark: float) -> float:
        """As it was marked."""
        return mark


class CudaClock:
    """Moments as the GPU's stream comes to them: an event each, held against one whose time on the CPU's clock is known.

    >>> clock = CudaClock(torch.device("cuda", 0)); mark = clock.mark(); clock.settle(); clock.seconds(mark)
    """

    def __init__(self, device: Any) -> None:
        self._device = device
        self._first = self._event()
        self._synchronise()
        self._first.record()
        self._synchronise()
        self._first_s = time.perf_counter()

    def mark(self) -> Any:
        """Where the current stream is; in a callback of an exchange that is the exchange's own."""
        event = self._event()
        event.record()
        return event

    def settle(self) -> None:
        """Wait for the GPU, once."""
        self._synchronise()

    def seconds(self, mark: Any) -> float:
        """When the stream came to it."""
        return self._first_s + float(self._first.elapsed_time(mark)) / 1e3

    def _event(self) -> Any:
        import torch

        return torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]

    def _synchronise(self) -> None:
        import torch

        torch.cuda.synchronize(self._device)


def clock_of(tensor: Any) -> Clock:
    """The clock of the device that a tensor is on."""
    return CudaClock(tensor.device) if tensor.device.type == "cuda" else CpuClock()
