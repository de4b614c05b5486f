"""Mean and peak of everything sampled over a span of time: "the GPU was 38 % busy during this cell"."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel.machine.telemetry.load_history import LoadHistory
from accel.machine.telemetry.load_in_words import share_of
from accel.shown import Shown

if TYPE_CHECKING:
    import numpy as np
    import pandas

NO_SAMPLE = "No sample lies in this span of time."


@dataclass(frozen=True)
class MeanAndPeak:
    """One quantity over the span; `peak` is the largest sample, so a peak shorter than a sample shows lower than it was."""

    name: str
    mean: float
    peak: float
    lowest: float


@dataclass(frozen=True)
class LoadSummary(Shown):
    """What the machine did over `seconds` seconds, in means weighted by time.

    >>> print(accel.monitor().summary(last_s=60))
    """

    seconds: float
    samples: int
    cpu_count: int
    memory_bytes: float
    gpu_names: tuple[str, ...]
    gpu_memory_bytes: tuple[float | None, ...]
    quantities: tuple[MeanAndPeak, ...]
    cost: float = 0.0
    notes: tuple[str, ...] = ()
    allowed: tuple[int, ...] = ()  # the CPUs that this process may use, where those are not all
    quota_cores: float | None = None  # the container's

    def __getitem__(self, name: str) -> MeanAndPeak:
        """A quantity by its column, as in summary["gpu0_busy"].mean."""
        by_name = {each.name: each for each in self.quantities}
        if name not in by_name:
            raise KeyError(f"{name!r} was not recorded here; there are: {', '.join(by_name)}")
        return by_name[name]

    def get(self, name: str) -> MeanAndPeak | None:
        """A quantity by its column, None where it was not recorded."""
        return next((each for each in self.quantities if each.name == name), None)

    @property
    def headline(self) -> str:
        """The span and the two figures that matter most, in a sentence."""
        if not self.samples:
            return NO_SAMPLE
        said = []
        if (own := self.get("allowed_busy")) is not None:
            said.append(f"{self.own_cpus} were {share_of(own.mean)} busy")
        elif (cpu := self.get("cpu_busy")) is not None:
            said.append(f"the CPUs were {share_of(cpu.mean)} busy")
        if (used := self.get("quota_used")) is not None:
            said.append(
                f"the container used {share_of(used.mean)} of its quota of {self.quota_cores:g} cores"
            )
        for index in range(len(self.gpu_names)):
            if (gpu := self.get(f"gpu{index}_busy")) is not None:
                said.append(f"GPU {index} was {share_of(gpu.mean)} busy")
        return f"Over {self.seconds:.1f} s {_listed(said) or 'no data'}."

    @property
    def own_cpus(self) -> str:
        """Which CPUs these are, where those are not all."""
        return f"the {len(self.allowed)} of {self.cpu_count} CPUs that this process may use"

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self) | {"headline": self.headline}

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a quantity."""
        import pandas

        return pandas.DataFrame([asdict(each) for each in self.quantities])


def _listed(parts: list[str]) -> str:
    """In a sentence: "a, b and c"."""
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


def mean_and_peak(
    history: LoadHistory, since_s: float, until_s: float
) -> tuple[float, int, tuple[MeanAndPeak, ...]]:
    """Seconds covered, samples and every quantity between two moments; a sample that lies partly inside counts by that part."""
    rows = history.rows()
    if not len(rows):
        return 0.0, 0, ()
    time_s = rows[:, history.columns.index("time_s")]
    begins = time_s - rows[:, history.columns.index("interval_s")]
    inside = time_s.clip(max=until_s) - begins.clip(min=since_s)
    rows, inside = (
        rows[inside > 0],
        inside[inside > 0],
    )  # a sample without an interval is NaN, and none of them
    found = [
        _of_column(name, rows[:, at], inside)
        for at, name in enumerate(history.columns)
        if name not in ("time_s", "interval_s")
    ]
    return float(inside.sum()), len(rows), tuple(each for each in found if each is not None)


def _of_column(name: str, values: np.ndarray, seconds: np.ndarray) -> MeanAndPeak | None:
    known = ~(values != values)  # NaN is unequal to itself
    if not known.any():
        return None
    values, seconds = values[known], seconds[known]
    mean = float((values * seconds).sum() / seconds.sum())
    return MeanAndPeak(name, mean, float(values.max()), float(values.min()))
