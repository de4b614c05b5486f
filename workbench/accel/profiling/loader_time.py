"""Time inside the data pipeline: fetching samples, each transform, collating; in the loader's own workers too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TransformTime:
    """One stage of the pipeline: a transform by its class's name, "reading" (the rest of `__getitem__`) or "collating"."""

    name: str
    ms_per_sample: float
    share: float  # of the whole pipeline
    calls: int


@dataclass(frozen=True)
class LoaderTime:
    """What one DataLoader spent, measured where it was spent; `workers` is 0 when that is the training process itself."""

    loader: str  # the name of the variable, "" when it has none
    workers: int
    ms_per_batch: float  # of one worker's own time, not of waiting
    batches: int
    stages: tuple[TransformTime, ...]  # most expensive first
