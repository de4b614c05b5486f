"""One row of a sweep: so many processes with so many threads, and what their runs took."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import geometric_mean, median

from accel.units import counted


@dataclass(frozen=True)
class Configuration:
    """Processes with threads each, on CPUs of their own; or, with `on_gpus`, one GPU a process.

    `backend` is what they exchange gradients by; one process exchanges none, and has "".
    """

    processes: int
    threads: int | None = None
    backend: str = ""
    on_gpus: bool = False

    @property
    def units(self) -> int:
        """How many CPUs or GPUs it uses."""
        return self.processes if self.on_gpus else self.processes * (self.threads or 1)

    @property
    def label(self) -> str:
        """As a table has it: 2 × 8, or 4 GPUs."""
        return counted(self.processes, "GPU") if self.on_gpus else f"{self.processes} × {self.threads}"

    @property
    def words(self) -> str:
        """As a sentence has it."""
        joined = f" over {self.backend}" if self.backend else ""
        if self.on_gpus:
            return f"{self.label}{joined}"
        return f"{counted(self.processes, 'process')} × {counted(self.threads or 1, 'thread')}{joined}"


@dataclass(frozen=True)
class SweptRun:
    """What one run of a configuration took; `seconds` are of training alone, and `samples_per_s` is of the steps after the first.

    `communication_share` is the part of its time in which a rank did nothing but wait for others, the mean over ranks;
    NaN where it was not recorded.
    """

    seconds: float
    samples: int
    steps: int
    samples_per_s: float
    communication_share: float
    quality: float | None = None


@dataclass(frozen=True)
class SweepRow:
    """A configuration with its runs, one a round, and why it has none or no further one."""

    configuration: Configuration
    runs: tuple[SweptRun, ...] = ()
    reason: str = ""

    @property
    def seconds(self) -> float:
        """Of training; the geometric mean over rounds, as of speed-ups."""
        return _mean([run.seconds for run in self.runs])

    @property
    def samples_per_s(self) -> float:
        """That all processes together trained on; the geometric mean over rounds."""
        return _mean([run.samples_per_s for run in self.runs])

    @property
    def samples(self) -> int:
        """That the model had been trained on when its quality was taken."""
        return self.runs[-1].samples if self.runs else 0

    @property
    def communication_share(self) -> float:
        """The part of the time spent waiting for others; the median over rounds."""
        return _median([run.communication_share for run in self.runs])

    @property
    def quality(self) -> float | None:
        """Of the trained model on held-out data; the median over rounds."""
        known = [run.quality for run in self.runs if run.quality is not None]
        return _median(known) if known else None


def _mean(values: list[float]) -> float:
    if len(values) < 2:  # the value itself, to the last bit
        return values[0] if values else float("nan")
    return geometric_mean(values) if min(values) > 0 else 0.0


def _median(values: list[float]) -> float:
    return median(values) if values else float("nan")
