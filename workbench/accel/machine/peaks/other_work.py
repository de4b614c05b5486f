"""Whether other processes had the CPUs or the GPUs while something was measured: what it gave is then too low."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

DISTURBED = (
    0.25  # of the time of the CPUs that were measured on; 0.1 to 0.4 is what one busy neighbour takes of two
)
GPU_AT_WORK_PERCENT = 10
IDLE_COLUMNS = (3, 4)  # of a line in /proc/stat: idle, waiting for input
GUEST_COLUMNS = 8  # from here on a virtual machine's time, which is part of the first columns already


class OtherWork:
    """The share of the CPUs' time that others took while this was open; 0 where the system does not tell.

    >>> with OtherWork() as others:
    ...     measure()
    >>> others.share
    0.02

    Children that have been waited for count as ours.
    """

    def __init__(
        self,
        cpus: Sequence[int] | None = None,
        *,
        root: Path | str = "/",
        own_s: Callable[[], float] | None = None,
    ) -> None:
        self._cpus, self._stat, self._own_s = cpus, Path(root) / "proc/stat", own_s or _own_s
        self.share = 0.0

    @property
    def disturbed(self) -> bool:
        """Whether so much was taken that a rate is too low."""
        return self.share > DISTURBED

    def __enter__(self) -> OtherWork:
        self._before = self._read()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (busy, whole, own), (busy_now, whole_now, own_now) = self._before, self._read()
        if whole_now > whole:
            self.share = max(0.0, (busy_now - busy) - (own_now - own)) / (whole_now - whole)

    def _read(self) -> tuple[float, float, float]:
        """Seconds that the CPUs worked and that they were there, and those of our own."""
        try:
            lines = self._stat.read_text().splitlines()
        except OSError:
            return 0.0, 0.0, 0.0
        cpus = _allowed() if self._cpus is None else self._cpus
        wanted = {f"cpu{number}" for number in cpus}
        busy = whole = 0.0
        for name, *values in (line.split() for line in lines if line.startswith("cpu")):
            if name in wanted:
                ticks = [int(value) for value in values[:GUEST_COLUMNS]]
                whole += sum(ticks)
                busy += sum(ticks) - sum(ticks[column] for column in IDLE_COLUMNS)
        return busy / _ticks_per_s(), whole / _ticks_per_s(), self._own_s()


def gpus_at_work(nvml: Any | None, uuids: Sequence[str]) -> dict[int, int]:
    """Those GPUs that compute for somebody, and how many percent of the time; empty where the driver does not tell.

    >>> with opened_nvml() as nvml:
    ...     gpus_at_work(nvml, ["5f2c…"])
    {0: 87}
    """
    found: dict[int, int] = {}
    if nvml is None:
        return found
    for index, uuid in enumerate(uuids):
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid if uuid.startswith("GPU-") else f"GPU-{uuid}")
            percent = int(nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        except nvml.NVMLError:  # a part of a GPU has no such figure
            continue
        if percent >= GPU_AT_WORK_PERCENT:
            found[index] = percent
    return found


def _own_s() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _allowed() -> list[int]:
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def _ticks_per_s() -> float:
    return float(os.sysconf("SC_CLK_TCK")) if hasattr(os, "sysconf") else 100.0
