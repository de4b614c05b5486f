"""Pooling and normalisation of images, whose CPU kernels are many times as fast on channels-last images."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import Part

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.op_table import OpRow

# Ratios of CPU time, NCHW over channels-last, on one core of an AMD EPYC with avx512_bf16, torch 2.14, 32 to 256 channels
# of 8×8 to 32×32 in batches of 16 and 64: pooling forward 6 to 25, batch normalisation forward 3.3 to 4.1 (vectorised over
# channels, which NCHW kernels are not); backward 0.4 to 2.6, with no clear direction.
POOLING = (5.0, 11.0, 25.0)
NORMALISATION = (2.5, 3.7, 4.3)
BACKWARD = (0.7, 1.0, 2.0)


def pooling_and_normalisation(evidence: Evidence) -> tuple[Part, ...]:
    """Their shares of the step, and how many times as fast each becomes on channels-last images (CPU)."""
    rows = evidence.rows(is_pooling_or_normalisation)
    backward = sum(row.share for row in rows if "backward" in row.op)
    pooling = sum(row.share for row in rows if "pool" in row.op and "backward" not in row.op)
    normalisation = sum(row.share for row in rows) - backward - pooling
    return Part(pooling, *POOLING), Part(normalisation, *NORMALISATION), Part(backward, *BACKWARD)


def is_pooling_or_normalisation(row: OpRow) -> bool:
    """Whether an operation pools or normalises images, forward or backward."""
    return "pool" in row.op or "batch_norm" in row.op
