"""Convolutions on images laid out channel by channel (NCHW), which their kernels reorder at each call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.evidence import LEAST_SHARE
from accel.diagnosis.predicting import GONE, Part, amdahl
from accel.diagnosis.products import (
    NORMALISATION,
    POOLING,
    is_convolution,
    is_pooling_or_normalisation,
    pooling_and_normalisation,
)
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    import torch

    from accel.diagnosis.evidence import Evidence
    from accel.profiling.op_table import OpRow

# Of the convolutions themselves, on one core of an EPYC with avx512_bf16: 1.10 to 1.67 in float32 (16 to 128 channels, CPU time),
# and DenseNet121 at 32×32 as a whole 1.07 [0.83, 1.14]. On GPUs the layout pays with tensor cores: PyTorch's own tutorial has
# over 22 % with mixed precision (https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html).
ON_CPU = (0.95, 1.2, 1.7)
ON_GPU = (0.9, 1.15, 1.6)
REORDERING = ("nchwtonhwc", "nhwctonchw")  # as cuDNN names its kernels: cudnn::ops::nchwToNhwcKernel<…>


def layout_nchw(evidence: Evidence) -> Finding | None:
    """Convolution weights that are not channels-last, and a share of the step in convolutions."""
    if evidence.is_of_trace:
        return _of_trace(evidence)
    weights = [p for model in evidence.objects.models.values() for p in model.parameters() if p.dim() == 4]
    plain = [p for p in weights if not _is_channels_last(p)]
    rows = evidence.rows(_is_concerned)
    if not plain or "channels_last" in evidence.live or not any(map(is_convolution, rows)):
        return None
    parts = _parts(evidence, rows)
    share = sum(part.share for part in parts)
    if share < LEAST_SHARE:
        return None
    return Finding(
        kind="layout_nchw",
        title=f"Convolutions in NCHW layout: {percent(share)} of each step with the pooling between them",
        what="Kernels for images want the channels of a pixel next to each other; they reorder images and weights at each "
        "call, or go through them number by number.",
        share=share,
        evidence=(f"{len(plain)} of {len(weights)} convolution weights are laid out NCHW",
                  f"convolutions: {percent(parts[0].share)}, pooling and normalisation: {percent(share - parts[0].share)}"),
        prediction=amdahl(_basis(parts), *parts),
        suggests=("channels_last",),
        remedy="",
        wrong_when="the model calls .view() on images or permutes them between layers; with few channels the gain is small.",
    )  # fmt: skip


def _of_trace(evidence: Evidence) -> Finding | None:
    """cuDNN's kernels that turn images from one layout to the other and back; what a CPU's library reorders has no name."""
    device = evidence.device
    if device is None or not device.step_ms:
        return None
    kernels = [kernel for kernel in device.kernels if any(part in kernel.name.lower() for part in REORDERING)]
    ms = sum(kernel.ms for kernel in kernels)
    share = min(1.0, ms / device.step_ms)
    if share < LEAST_SHARE:
        return None
    return Finding(
        kind="layout_nchw",
        title=f"Images are turned from NCHW to NHWC and back: {percent(share)} of each step",
        what="The convolution kernels of this GPU want the channels of a pixel next to each other, and every image in NCHW is "
        "reordered before and after them.",
        share=share,
        evidence=(f"{sum(kernel.calls for kernel in kernels):.3g} reordering kernels a step, {ms:.3g} ms", kernels[0].name),
        prediction=amdahl(f"reordering, {percent(share)} of the step, goes as far as the GPU is what the step waits for",
                          Part(share, 1.0, 2.0, GONE)),
        suggests=("channels_last",),
        remedy="",
        wrong_when="the model calls .view() on images or permutes them between layers.",
    )  # fmt: skip


def _parts(evidence: Evidence, rows: tuple[OpRow, ...]) -> tuple[Part, ...]:
    """Convolutions, then what works on images between them."""
    convolutions = [row for row in rows if is_convolution(row)]
    if evidence.device is not None:
        return (Part(sum(row.device_ms for row in rows) / evidence.profile.step_ms, *ON_GPU),)
    return (Part(sum(row.share for row in convolutions), *ON_CPU), *pooling_and_normalisation(evidence))


def _basis(parts: tuple[Part, ...]) -> str:
    low, _, high = ON_CPU if len(parts) > 1 else ON_GPU
    between = sum(part.share for part in parts[1:3])
    pools = (
        f"; the forward of pooling and normalisation, {percent(between)}, {NORMALISATION[0]:g} to {POOLING[-1]:g} times"
        if between > 0.005
        else ""
    )
    return f"convolutions, {percent(parts[0].share)} of the step, become {low:g} to {high:g} times as fast{pools}"


def _is_channels_last(weight: torch.Tensor) -> bool:
    """Weights whose layout is both (1×1 kernels, one channel) count as laid out."""
    import torch

    return weight.is_contiguous(memory_format=torch.channels_last)


def _is_concerned(row: OpRow) -> bool:
    return is_convolution(row) or is_pooling_or_normalisation(row)
