"""How a cell trains on ranks: what a user can ask for, as it travels from the command to each rank."""

from __future__ import annotations

import math
from typing import get_args

import msgspec

from accel.bounds import check_count, check_seconds
from accel.distributed.data_parallel.gradient_compression import compression_of
from accel.distributed.data_parallel.shares import BatchMeans
from accel.distributed.first_step.verdict import Check
from accel.errors import AccelError, UnknownName

_MOST_RESTARTS, _MOST_BUCKET_MB = 1_000, 1_000_000


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
    bucket_mb: float | None = None  # MiB of gradients that DDP sends together; None: as torch has it
    static_graph: bool = False
    compress: str = "none"  # see `compression_of`
    communication: bool = False  # watch some steps
    check: Check = "on"  # of the first step, with batch "global"; see `first_step`
    steps: int = 0  # all ranks stop after so many optimizer steps; 0: where the cell ends

    @property
    def is_private(self) -> bool:
        """Nothing of the notebook changes: what the cell writes to disk goes with the ranks, which end after the run."""
        return self.discard

    def __post_init__(self) -> None:
        check_seconds(f"--timeout {self.timeout_s}", self.timeout_s)
        if self.batch not in get_args(BatchMeans):
            raise UnknownName("value of --batch", str(self.batch), get_args(BatchMeans))
        if self.check not in get_args(Check):
            raise UnknownName("value of --check", str(self.check), get_args(Check))
        if self.check == "strict" and self.batch != "global":
            raise AccelError(
                "--check strict",
                because="one process can take the same first step as the ranks only if the ranks share one batch",
                do="Add --batch global, or leave --check out.",
            )
        if not isinstance(self.compress, str):
            raise AccelError(
                f"--compress {self.compress!r}",
                because="it is no text",
                do='Use for example "bf16"; without it, gradients are sent as they are.',
            )
        compression_of(self.compress)
        check_count(f"--every {self.every}", self.every, of="steps between two checkpoints")
        check_count(f"{self.keeps} checkpoints", self.keeps, of="checkpoints")
        if not isinstance(self.max_restarts, int) or not 0 <= self.max_restarts <= _MOST_RESTARTS:
            raise AccelError(
                f"--max-restarts {self.max_restarts}",
                because=f"a number of restarts is a whole number from 0 to {_MOST_RESTARTS:,}",
                do="Say 3, for example.",
            )
        if self.bucket_mb is not None and not (
            _is_number(self.bucket_mb) and 0 < self.bucket_mb <= _MOST_BUCKET_MB
        ):
            raise AccelError(
                f"--bucket-mb {self.bucket_mb}",
                because="a bucket of gradients is some megabytes large, a number above 0 and no larger than memory",
                do="Use for example 4; without it, torch takes 25.",
            )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)
