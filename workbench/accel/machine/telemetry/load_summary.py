"""Mean and peak of everything sampled over a span of time: "the GPU was 38 % busy during this cell"."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from accel import html_parts
from accel.machine.telemetry.load_history import LoadHistory
from accel.machine.telemetry.load_in_words import NAMES, cores, rate, share_of
from accel.units import counted, percent, size

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
class LoadSummary:
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
        """A quantity by its column, None where it was not told."""
        return next((each for each in self.quantities if each.name == name), None)

    @property
    def rows(self) -> list[tuple[str, str, str]]:
        """What is shown: (what, mean, peak)."""
        return [row for row in (*self._host_rows(), *self._gpu_rows()) if row is not None]

    @property
    def headline(self) -> str:
        """The span and the two figures that matter most, in a sentence."""
        if not self.samples:
            return NO_SAMPLE
        said = []
        if (own := self.get("allowed_busy")) is not None:
            said.append(f"{self._own_cpus} were {share_of(own.mean)} busy")
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
    def _own_cpus(self) -> str:
        return f"the {len(self.allowed)} of {self.cpu_count} CPUs that this process may use"

    def _host_rows(self) -> list[tuple[str, str, str] | None]:
        lowest_free = self.get("available_bytes")
        rows = [
            self._row(f"all {self.cpu_count} CPUs", "cpu_busy", share_of),
            self._row(self._own_cpus, "allowed_busy", share_of),
            self._row(f"of the container's quota of {self.quota_cores or 0:g} cores", "quota_used", share_of),
            self._row("stopped by the quota, share of periods", "stopped_by_quota", share_of, least=0.005),
            self._busiest_core(),
            self._row("taken by other virtual machines", "stolen", share_of, least=0.005),
            self._row("waiting for a disk", "waiting_for_disk", share_of, least=0.005),
            self._row("this process: CPU", "process_cores", cores),
            self._row("this process: memory", "process_rss_bytes", size),
        ]
        for kind, (_, what) in NAMES.items():
            count = self.get(f"{kind}_count")
            if count is not None and count.peak > 0:
                rows.append(self._row(f"{what} ({count.peak:.0f}): CPU", f"{kind}_cores", cores))
                rows.append(self._row(f"{what} ({count.peak:.0f}): memory", f"{kind}_rss_bytes", size))
        if lowest_free is not None and self.memory_bytes:
            used = [self.memory_bytes - value for value in (lowest_free.mean, lowest_free.lowest)]
            rows.append((f"memory in use, of {size(self.memory_bytes)}", size(used[0]), size(used[1])))
        rows.append(self._row("swap in use", "swap_used_bytes", size, least=2**20))
        rows.append(self._row("load average", "load", lambda value: f"{value:.2f}"))
        return rows

    def _gpu_rows(self) -> list[tuple[str, str, str] | None]:
        rows = []
        for index, (name, memory) in enumerate(zip(self.gpu_names, self.gpu_memory_bytes, strict=True)):
            of = f", of {size(memory)}" if memory else ""
            rows += [
                self._row(f"GPU {index} ({name}): busy", f"gpu{index}_busy", share_of),
                self._row(f"GPU {index}: memory{of}", f"gpu{index}_memory_used_bytes", size),
                self._row(f"GPU {index}: power", f"gpu{index}_power_w", lambda value: f"{value:.0f} W"),
                self._row(f"GPU {index}: temperature", f"gpu{index}_temperature_c", lambda value: f"{value:.0f} °C"),
                self._row(f"GPU {index}: clock", f"gpu{index}_sm_mhz", lambda value: f"{value:.0f} MHz"),
                self._row(f"GPU {index}: slowed down, share of time", f"gpu{index}_is_slowed", share_of, least=0.005),
                *(
                    self._row(f"GPU {index}: {link} {way}", f"gpu{index}_{column}_bytes_s", rate)
                    for link, way, column in (
                        ("PCIe", "in", "pcie_in"), ("PCIe", "out", "pcie_out"),
                        ("NVLink", "in", "nvlink_in"), ("NVLink", "out", "nvlink_out"),
                    )
                ),
            ]  # fmt: skip
        return rows

    def _row(self, what: str, name: str, shown: Any, least: float = -math.inf) -> tuple[str, str, str] | None:
        found = self.get(name)
        return None if found is None or found.peak < least else (what, shown(found.mean), shown(found.peak))

    def _busiest_core(self) -> tuple[str, str, str] | None:
        each_core = [
            each for each in self.quantities if each.name.startswith("cpu") and each.name[3].isdigit()
        ]
        if len(each_core) < 2:
            return None
        busiest = max(each_core, key=lambda each: each.mean)
        number = busiest.name.removeprefix("cpu").removesuffix("_busy")
        return f"busiest: CPU {number}", share_of(busiest.mean), share_of(busiest.peak)

    def __str__(self) -> str:
        width = max((len(what) for what, *_ in self.rows), default=0)
        lines = [f"  {what:<{width}}  {mean:>12} mean  {peak:>12} peak" for what, mean, peak in self.rows]
        return "\n".join([self.headline, *lines, *self._remarks()])

    def _remarks(self) -> list[str]:
        taken = f"{counted(self.samples, 'sample')}; sampling took {percent(self.cost, 2)} of one core."
        return [taken, *self.notes] if self.samples else list(self.notes)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return asdict(self) | {"headline": self.headline}

    def to_dataframe(self) -> pandas.DataFrame:
        """One row a quantity."""
        import pandas

        return pandas.DataFrame([asdict(each) for each in self.quantities])

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        parts = [
            html_parts.heading(self.headline),
            html_parts.table(["", "mean", "peak"], self.rows, numeric=(1, 2)),
            *map(html_parts.note, self._remarks()),
        ]
        return {"text/plain": str(self), "text/html": html_parts.block(*parts)}


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
    told = ~(values != values)  # NaN is unequal to itself
    if not told.any():
        return None
    values, seconds = values[told], seconds[told]
    mean = float((values * seconds).sum() / seconds.sum())
    return MeanAndPeak(name, mean, float(values.max()), float(values.min()))
