"""Convolutions on images laid out channel by channel (NCHW), which their kernels reorder at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import Part, amdahl
from accel.diagnosis.products import is_convolution
from accel.diagnosis.rule import LEAST_SHARE
from accel.profiling.finding import Finding
from accel.profiling.report.words import percent

if TYPE_CHECKING:
    import torch

    from accel.diagnosis.evidence import Evidence
    from accel.profiling.op_table import OpRow

# Of convolutions, pooling and normalisation together, from whole-step ratios on one EPYC core under a steady allocator:
# course CNN 1.26 [1.25, 1.29], DenseNet121 at 32×32 1.07 [0.83, 1.14]. On GPUs the layout pays with tensor cores: PyTorch's own
# tutorial has over 22 % with mixed precision (https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html).
FACTORS = (0.9, 1.25, 1.6)
WITH_THEM = ("pool", "batch_norm")


def layout_nchw(evidence: Evidence) -> Finding | None:
    """Convolution weights that are not channels-last, and a share of the step in convolutions."""
    weights = [p for model in evidence.objects.models.values() for p in model.parameters() if p.dim() == 4]
    plain = [p for p in weights if not _is_channels_last(p)]
    rows = evidence.rows(_is_concerned)
    on_device = sum(row.device_ms for row in rows) / evidence.profile.step_ms
    share = on_device if evidence.device is not None else sum(row.share for row in rows)
    if (
        not plain
        or share < LEAST_SHARE
        or "channels_last" in evidence.live
        or not any(map(is_convolution, rows))
    ):
        return None
    low, factor, high = FACTORS
    return Finding(
        kind="layout_nchw",
        title=f"Convolutions in NCHW layout: {percent(share)} of each step",
        what="The kernels want the channels of a pixel next to each other and reorder images and weights at each call.",
        share=min(share, 1.0),
        evidence=(f"{len(plain)} of {len(weights)} convolution weights are laid out NCHW",
                  f"convolutions, pooling and normalisation: {percent(share)} of the step"),
        prediction=amdahl(f"these operations, {percent(share)} of the step, become {low:g} to {high:g} times as fast",
                          Part(min(share, 1.0), low, factor, high)),
        suggests=("channels_last",),
        remedy="",
        wrong_when="the model calls .view() on images or permutes them between layers; with few channels the gain is small.",
    )  # fmt: skip


def _is_channels_last(weight: torch.Tensor) -> bool:
    """Weights whose layout is both (1×1 kernels, one channel) count as laid out."""
    import torch

    return weight.is_contiguous(memory_format=torch.channels_last)


def _is_concerned(row: OpRow) -> bool:
    return is_convolution(row) or any(part in row.op for part in WITH_THEM)
