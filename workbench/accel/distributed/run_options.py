"""How a cell trains on ranks: what a user can ask for, as it travels from the command to each rank."""

from __future__ import annotations

import msgspec

from accel.bounds import check_seconds
from accel.distributed.shares import BatchMeans


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One option of `%%accel ddp` a field, by the same name; see `%accel help ddp`.

    >>> RunOptions(batch="global", timeout_s=20.0)

    `loaders` names those that are shared out; empty: those that train, as they are seen. Of a run's checkpoints `keeps` stay.
    """

    batch: BatchMeans = "per-rank"
    loaders: tuple[str, ...] = ()
    plan: str = ""  # applied in every rank
    timeout_s: float = 60.0
    discard: bool = False
    sync_batchnorm: bool = False
    checkpoint: str = ""  # the folder; empty: none are written
    every: int = 100  # steps between two checkpoints
    keeps: int = 2
    max_restarts: int = 0

    def __post_init__(self) -> None:
        check_seconds(f"--timeout {self.timeout_s}", self.timeout_s)
