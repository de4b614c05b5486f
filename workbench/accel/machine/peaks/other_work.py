"""Whether other processes had the CPUs or the GPUs while something was measured: what it gave is then too low."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

from accel.machine.peaks import timing
from accel.machine.peaks.family_time import FamilyTime
from accel.processes.starting_mask import allowed_cpus

PATIENCE = 2  # times the budget of a rate, until one that others disturb is left as it is
ENOUGH = 0.75  # of a core for each of our threads; one busy neighbour on two cores leaves 0.6 to 0.9
GPU_AT_WORK_PERCENT = 10
IDLE_COLUMNS = (3, 4)  # of a line in /proc/stat: idle, waiting for input
GUEST_COLUMNS = 8  # from here on a virtual machine's time, which is part of the first columns already


class OtherWork:
    """What others took of the CPUs while this was open, and whether that left a core for each of so many threads of ours.

    >>> with OtherWork(threads=2) as others:
    ...     measure()
    >>> others.share, others.disturbed
    (0.02, False)

    Children that have been waited for count as ours; with `counts_children` also those that run, where what is measured runs
    in workers. Where that cannot be known, because one ended and nobody waited for it, nothing is said. A system that does
    not tell (only Linux does) disturbs nothing.
    One's own CPU time would not do: OpenMP's threads spin, and so look busy, while one of them has no core.
    """

    def __init__(
        self,
        threads: int = 1,
        cpus: Sequence[int] | None = None,
        *,
        root: Path | str = "/",
        own_s: Callable[[], float] | None = None,
        counts_children: bool = False,
    ) -> None:
        self._threads, self._cpus = threads, allowed_cpus() if cpus is None else cpus
        self._stat, self._own_s = Path(root) / "proc/stat", own_s or _own_s
        self._counts_children = counts_children
        self.share = 0.0  # of the time of these CPUs

    @property
    def cpus(self) -> int:
        """How many CPUs were watched."""
        return len(self._cpus)

    @property
    def disturbed(self) -> bool:
        """Whether too little was left, so that a rate is too low."""
        cores_left = len(self._cpus) * (1.0 - self.share)
        wanted = min(self._threads, len(self._cpus))
        return cores_left < ENOUGH * wanted

    def __enter__(self) -> OtherWork:
        self._before = self._read()
        self._family = FamilyTime.now() if self._stat.exists() and self._counts_children else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        (busy, whole, own), (busy_now, whole_now, own_now) = self._before, self._read()
        ours = own_now - own if self._family is None else self._family.used_until(FamilyTime.now())
        if whole_now > whole and ours is not None:
            self.share = min(max(0.0, (busy_now - busy) - ours) / (whole_now - whole), 1.0)

    def _read(self) -> tuple[float, float, float]:
        """Seconds that the CPUs worked and that they were there, and those of our own."""
        try:
            lines = self._stat.read_text().splitlines()
        except OSError:
            return 0.0, 0.0, 0.0
        wanted = {f"cpu{number}" for number in self._cpus}
        busy = whole = 0.0
        for name, *values in (line.split() for line in lines if line.startswith("cpu")):
            if name in wanted:
                ticks = [int(value) for value in values[:GUEST_COLUMNS]]
                whole += sum(ticks)
                busy += sum(ticks) - sum(ticks[column] for column in IDLE_COLUMNS)
        return busy / _ticks_per_s(), whole / _ticks_per_s(), self._own_s()


def undisturbed(measure: Callable[[int], float], threads: int) -> tuple[float, bool]:
    """The best rate of as many attempts as it takes until one is undisturbed, and whether there was none in reasonable time.

    >>> undisturbed(lambda attempt: moving(1 << 28, "cpu", wall), threads=2)
    (41.2e9, False)

    `measure` is told how many attempts there were before.
    """
    best, until = 0.0, time.perf_counter() + PATIENCE * timing.BUDGET_S
    for attempt in count():
        with OtherWork(threads) as others:
            best = max(best, measure(attempt))
        if not others.disturbed or time.perf_counter() > until:
            break
    return best, others.disturbed


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


def _ticks_per_s() -> float:
    return float(os.sysconf("SC_CLK_TCK")) if hasattr(os, "sysconf") else 100.0
