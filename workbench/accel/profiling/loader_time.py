"""Time inside the data pipeline: fetching samples, each transform, collating; in the loader's own workers too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from accel.profiling.pipeline_timer import COLLATING, READING, BatchRecord
from accel.units import percent

__all__ = ["COLLATING", "READING", "LoaderTime", "TransformTime", "loader_time"]


@dataclass(frozen=True)
class TransformTime:
    """One stage of the pipeline: a transform by its class's name, "reading" (the rest of `__getitem__`) or "collating"."""

    name: str
    ms_per_sample: float
    share: float  # of the whole pipeline
    calls: int


@dataclass(frozen=True)
class LoaderTime:
    """What one DataLoader spent, measured where it was spent; `workers` is 0 when that is the training process itself.

    The first batches are measured, without the very first of each process where there are others. A stage's time is
    its share of the median batch time. `not_measured` says why there are no figures, `note` what the figures leave out.
    """

    loader: str  # the name of the variable, "" when it has none
    workers: int
    ms_per_batch: float  # of one worker's own time, not of waiting; the median
    batches: int
    stages: tuple[TransformTime, ...]  # most expensive first
    not_measured: str = ""
    note: str = ""

    def __str__(self) -> str:
        where = f"{self.workers} workers" if self.workers else "in the training process"
        title = f"{self.loader or 'a DataLoader'} ({where})"
        if self.not_measured:
            return f"{title}: not measured, {self.not_measured}"
        stages = ", ".join(f"{stage.name} {percent(stage.share, 0)}" for stage in self.stages)
        note = f"; {self.note}" if self.note else ""
        return f"{title}: {self.ms_per_batch:.3g} ms a batch ({stages}){note}"


def loader_time(name: str, workers: int, records: Sequence[BatchRecord], note: str = "") -> LoaderTime:
    """Put the measured batches of one loader together.

    >>> loader_time("train_loader", 2, records).stages[0].name
    'RandomResizedCrop'
    """
    kept = _without_first(records)
    if not kept:
        return LoaderTime(name, workers, 0.0, 0, (), "no batch was fetched while the cell was watched")
    batch_ms = median(record.total_ns for record in kept) / 1e6
    sample_ms = batch_ms / max(median(record.samples for record in kept), 1)
    total_ns = sum(record.total_ns for record in kept) or 1
    spent: dict[str, tuple[int, int]] = {}
    for record in kept:
        for stage, (ns, calls) in record.stages.items():
            before = spent.get(stage, (0, 0))
            spent[stage] = before[0] + ns, before[1] + calls
    stages = [
        TransformTime(stage, sample_ms * ns / total_ns, ns / total_ns, calls)
        for stage, (ns, calls) in spent.items()
    ]
    return LoaderTime(
        name, workers, batch_ms, len(kept),
        tuple(sorted(stages, key=lambda stage: -stage.share)), note=note,
    )  # fmt: skip


def _without_first(records: Sequence[BatchRecord]) -> list[BatchRecord]:
    """Each process's first batch pays for imports and untouched memory; it counts only where it is the only one."""
    by_process: dict[int, list[BatchRecord]] = {}
    for record in records:
        by_process.setdefault(record.process, []).append(record)
    later = [record for each in by_process.values() for record in each[1:]]
    return later or list(records)
