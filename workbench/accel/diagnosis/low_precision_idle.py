"""Products and convolutions run in float32 where the hardware has faster low-precision units that stand idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.evidence import LEAST_SHARE
from accel.diagnosis.predicting import Part, amdahl, most_at_peak
from accel.diagnosis.products import (
    is_convolution,
    is_product,
    is_product_name,
    kernel_share,
    ms_a_call,
    pooling_and_normalisation,
)
from accel.profiling.findings import Finding, Prediction
from accel.units import milliseconds, percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

# How many times as fast products and convolutions become in bfloat16, forward and backward: CPU time on one core of an AMD EPYC
# with avx512_bf16, torch 2.14. Four convolutions of 16 to 128 channels, with channels_last: 1.8 to 2.6. Four linear layers: 0.95
# (50 µs a product), 1.9 (0.1 to 2 ms, batch 64), 3.6 (batch 512), 1.3 where casting weights weighs more (batch 16). At most
# 4.2 for both, the measured ratio of the peaks (432 to 102 GFLOP/s). AMX multiplies more a cycle; it was not measured.
CONVOLUTIONS_CPU = (1.4, 2.2, 3.5)
PRODUCTS_CPU = (1.0, 1.9, 3.6)
AMX_MOST = 8.0
# NVIDIA's own figures for training: 1.5 to 3 of the whole step on tensor cores
# (https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/), 8 being the ratio of the peaks.
ON_GPU = (1.2, 2.5, 8.0)
LONG = {"bf16": "bfloat16", "fp16": "float16"}
WRONG_WHEN = {
    "bf16": "training needs more than the 8 significant bits of a bfloat16: the trial compares losses.",
    "fp16": "numbers of the model go beyond 65,504, the largest float16; gradients are scaled, and a step whose gradients "
    "overflow is skipped.",
}
WORTH_CASTING_MS = 0.05  # a shorter product costs less than the casts around it


def low_precision_idle(evidence: Evidence) -> Finding | None:
    """float32 products on a machine that multiplies bfloat16, or float16 on a GPU, in hardware, without autocast."""
    if not _is_fp32(evidence):
        return None
    number_format = "bf16"
    if evidence.on_gpu or evidence.device is not None:
        gpus = evidence.machine.gpus
        if not any(gpu.has_bf16 for gpu in gpus):  # Volta and Turing
            number_format = "fp16"
        share = kernel_share(evidence) if any(gpu.has_fp16 for gpu in gpus) else 0.0
        said = "GPU kernels that multiply without tensor cores"
        prediction, units = _amdahl(share, ON_GPU), "tensor cores"
    else:
        rows = evidence.rows(is_product)
        share = sum(row.share for row in rows) if evidence.machine.has_cpu_bf16 else 0.0
        if ms_a_call(rows) < WORTH_CASTING_MS:
            return None
        said = f"products and convolutions: {sum(row.calls for row in rows):.0f} a step, {milliseconds(ms_a_call(rows))} each"
        prediction, units = _on_cpu(evidence, share), "bfloat16 units"
    if share < LEAST_SHARE:
        return None
    has_images = any(p.dim() == 4 for model in evidence.objects.models.values() for p in model.parameters())
    return Finding(
        kind="low_precision_idle",
        title=f"float32 where {LONG[number_format]} hardware idles: {percent(share)} of each step",
        what=f"Products and convolutions run in float32, and the {units} of this machine are not used.",
        share=share,
        evidence=(said, f"instruction sets: {' '.join(i for i in evidence.machine.isa if 'bf16' in i)}"
                  if not evidence.machine.gpus else f"GPU: {evidence.machine.gpus[0]}"),
        prediction=prediction,
        suggests=(_plan(number_format, has_images=has_images),),
        remedy="",
        wrong_when=WRONG_WHEN[number_format],
    )  # fmt: skip


def _plan(number_format: str, *, has_images: bool) -> str:
    autocast = "autocast" if number_format == "bf16" else f'autocast(dtype="{number_format}")'
    return f"channels_last+{autocast}" if has_images else autocast


def _is_fp32(evidence: Evidence) -> bool:
    """Weights in float32, and no mixed precision yet, neither kept nor the user's own."""
    models = evidence.objects.models.values()  # a trace has none, and needs no torch

    import torch

    is_float = any(p.dtype == torch.float32 for model in models for p in model.parameters())
    return (
        is_float
        and "autocast" not in evidence.live
        and not evidence.mentions("autocast", "GradScaler", "bfloat16")
    )


def _on_cpu(evidence: Evidence, share: float) -> Prediction:
    """Convolutions change their layout too, and with them pooling and normalisation, whose kernels gain most from it."""
    convolutions = evidence.share_of_ops(is_convolution)
    amx = AMX_MOST / CONVOLUTIONS_CPU[2] if "amx_bf16" in evidence.machine.isa else 1.0
    most = most_at_peak(evidence, is_product_name, "bfloat16")
    parts = [
        _part(convolutions, CONVOLUTIONS_CPU, amx).bounded(most),
        _part(share - convolutions, PRODUCTS_CPU, amx).bounded(most),
    ]
    basis = " and ".join(
        f"{name}, {percent(part.share)} of the step, {part.low:g} to {part.high:.2g} times"
        for name, part in zip(("convolutions", "products"), parts, strict=True)
        if part.share > 0
    )
    if convolutions and "channels_last" not in evidence.live:
        parts += pooling_and_normalisation(evidence)
        basis += ", and pooling by its layout"
    return amdahl(basis, *parts)


def _part(share: float, factors: tuple[float, float, float], amx: float) -> Part:
    low, factor, high = factors
    return Part(share, low, factor, high * amx)


def _amdahl(share: float, factors: tuple[float, float, float]) -> Prediction:
    low, factor, high = factors
    return amdahl(
        f"products, {percent(share)} of the step, become {low:g} to {high:g} times as fast",
        Part(share, low, factor, high),
    )
