"""Samples the machine in one daemon thread that watches its own cost and slows down rather than exceed it."""

from __future__ import annotations

import math
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from statistics import median

from accel.machine.telemetry.counters import HostCounters, HostReader
from accel.machine.telemetry.gpu_load import GpuReader
from accel.machine.telemetry.load_history import LoadHistory
from accel.machine.telemetry.proc_reader import ProcReader
from accel.machine.telemetry.psutil_reader import PsutilReader
from accel.machine.telemetry.sample import Sample, columns, sample_between
from accel.units import percent

MOST_OF_A_CORE = 0.01
COSTS_KEPT = 20
ROUNDING_S = 1e-6  # of the clock: no sample is taken for so little
SHORTEST_S = 0.05  # a CPU's time is counted in hundredths of a second


def host_reader() -> HostReader:
    """What reads the counters of this system."""
    return ProcReader() if Path("/proc/stat").exists() else PsutilReader()


class Sampler:
    """Takes a sample every `every_s` seconds from `start` to `close`, and keeps those of the last `minutes`; with `for_s`, it
    ends by itself.

    >>> sampler = Sampler(every_s=0.5)
    >>> sampler.start(); ...; sampler.close()
    >>> sampler.history["cpu_busy"].mean()

    It is a daemon thread: it ends with the process, and a forked child does not have it. `listeners` are called in it with each
    sample; what they take counts as the sampler's own cost.
    """

    def __init__(
        self, *, every_s: float = 0.5, for_s: float | None = None, minutes: float = 10.0,
        host: HostReader | None = None, gpus: GpuReader | None = None,
        clock: Callable[[], float] = time.monotonic, cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:  # fmt: skip
        self.every_s, self.for_s = every_s, for_s
        self.listeners: list[Callable[[Sample], None]] = []
        self._at_end: list[Callable[[], None]] = []
        self.failure: BaseException | None = None
        self._host, self._gpus = host or host_reader(), gpus or GpuReader()
        self._clock, self._cpu_clock, self._pid = clock, cpu_clock, os.getpid()
        self._lock, self._over = threading.RLock(), threading.Event()
        self._before: HostCounters | None = self._host.read()
        self.started_s = self._before.time_s
        self.latest = sample_between(None, self._before, self._gpus.read(self.started_s))
        self._costs_s: deque[float] = deque(maxlen=COSTS_KEPT)
        self._spent_s = self._watched_s = 0.0
        self._cpu_mark, self._clock_mark = cpu_clock(), self.started_s
        self._cpus, self._gpu_count = self._before.cpus, len(self.latest.gpus)
        self.history = LoadHistory(
            columns(self._cpus, self._gpu_count), capacity=max(2, round(minutes * 60 / every_s))
        )
        self._thread: threading.Thread | None = None
        self._is_closed = False

    # --- what it says of itself -------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether samples are being taken."""
        return self._thread is not None and self._thread.is_alive() and not self._over.is_set()

    @property
    def period_s(self) -> float:
        """The time between two samples now: as asked, or longer so that sampling stays below 1 % of one core."""
        return max(self.every_s, median(self._costs_s) / MOST_OF_A_CORE) if self._costs_s else self.every_s

    @property
    def cost(self) -> float:
        """The share of one core that the sampling thread took so far, by its own CPU clock."""
        return self._spent_s / self._watched_s if self._watched_s > 0 else 0.0

    @property
    def notes(self) -> tuple[str, ...]:
        """What the counters do not cover here, and what the sampler had to do."""
        found = [*self._host.notes, *self._gpus.notes]
        if self.period_s > self.every_s:
            found.append(
                f"A sample takes {1e3 * median(self._costs_s):.1f} ms: one is taken every {self.period_s:.1f} s instead of "
                f"every {self.every_s:g} s, so that sampling stays below {percent(MOST_OF_A_CORE, 0)} of one core."
            )
        if self.failure is not None:
            found.append(f"Sampling ended by an error: {type(self.failure).__name__}: {self.failure}")
        return tuple(found)

    # --- sampling ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to sample, or go on after `pause`; not after the end."""
        if self._is_forked:
            return
        with self._lock:  # whoever asks at the same time finds it started
            if self._is_closed or self.is_running:
                return
            self._over = threading.Event()
            if self._thread is not None:  # what happened during the pause belongs to no sample
                self._before = self._host.read()
            self._thread = threading.Thread(
                target=self._run, args=(self._over,), name="accel telemetry", daemon=True
            )
            self._thread.start()

    def pause(self) -> None:
        """Take no samples until `start`; the thread ends."""
        if self._is_forked:
            return
        with self._lock:
            self._over.set()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def call_at_end(self, listener: Callable[[], None]) -> None:
        """Call this once when sampling has ended for good, by `close`, by `for_s` or by an error; at once if it has."""
        with self._lock:
            if not self._is_closed:
                self._at_end.append(listener)
                return
        listener()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for sampling to end."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def close(self) -> None:
        """End the thread, close the files and NVML. What was sampled stays."""
        if self._is_forked:
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        self.pause()
        with self._lock:
            self._host.close()
            self._gpus.close()
            listeners, self._at_end = self._at_end, []
        for listener in listeners:
            listener()

    def sample(self) -> Sample:
        """Take a sample now."""
        if self._is_forked:
            return self.latest
        with self._lock:
            if self._is_closed:
                return self.latest
            after = self._host.read()
            made = sample_between(self._before, after, self._gpus.read(after.time_s))
            self._before, self.latest = after, made
            self.history.append(made.row(self._cpus, self._gpu_count))
        for listener in list(self.listeners):
            listener(made)
        return made

    def measured_sample(self) -> Sample:
        """Take a sample in the sampling thread, and count what it cost since the one before, waiting included."""
        made = self.sample()
        cpu_s, now_s = self._cpu_clock(), self._clock()
        self._costs_s.append(cpu_s - self._cpu_mark)
        self._spent_s += cpu_s - self._cpu_mark
        self._watched_s += now_s - self._clock_mark
        self._cpu_mark, self._clock_mark = cpu_s, now_s
        return made

    @property
    def _is_forked(self) -> bool:
        """Whether this is a child of the process that samples: it has no such thread, and perhaps a lock that no thread opens."""
        return self._pid != os.getpid()

    @property
    def _ends_s(self) -> float:
        """When it has watched for as long as was asked."""
        return math.inf if self.for_s is None else self._clock_mark + self.for_s - self._watched_s

    def _run(self, over: threading.Event) -> None:
        self._cpu_mark, self._clock_mark = self._cpu_clock(), self._clock()
        due = self._clock() + self.period_s
        while not over.wait(max(0.0, min(due, self._ends_s) - self._clock())):
            try:
                self.measured_sample()
            except Exception as error:  # it goes into the notes: a thread's traceback is shown nowhere
                self.failure = error
                self.close()
                return
            if self.for_s is not None and self._watched_s >= self.for_s - ROUNDING_S:
                self.close()
            due = max(due + self.period_s, self._clock())
