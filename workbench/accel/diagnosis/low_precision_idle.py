"""Products and convolutions run in float32 where the hardware has faster low-precision units that stand idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import Part, amdahl
from accel.diagnosis.products import is_convolution, is_product, kernel_share, ms_a_call
from accel.diagnosis.rule import LEAST_SHARE
from accel.profiling.finding import Finding, Prediction
from accel.profiling.report.words import milliseconds, percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

# How many times as fast products and convolutions become in bfloat16, from whole-step ratios on one EPYC core with
# avx512_bf16, under a steady allocator. Convolutions, with channels_last: course CNN 2.06 [2.03, 2.08], DenseNet121 at 32×32
# 1.22 [1.09, 1.30], so 1.3 to 3.2 of their share. At most 4.2: the measured ratio of the peaks (432 to 102 GFLOP/s).
# Products pay for casting weights at each call. AMX doubles the products a cycle and more; it was not measured.
CONVOLUTIONS_CPU = (1.2, 2.6, 4.2)
PRODUCTS_CPU = (0.9, 1.7, 4.2)
AMX_MOST = 8.0
# NVIDIA's own figures for training: 1.5 to 3 of the whole step on tensor cores
# (https://docs.nvidia.com/deeplearning/performance/mixed-precision-training/), 8 being the ratio of the peaks.
ON_GPU = (1.2, 2.5, 8.0)
WORTH_CASTING_MS = 0.05  # a shorter product costs less than the casts around it


def low_precision_idle(evidence: Evidence) -> Finding | None:
    """float32 products on a machine that multiplies bfloat16 in hardware, without autocast."""
    if not _is_fp32(evidence):
        return None
    if evidence.on_gpu or evidence.device is not None:
        share = kernel_share(evidence) if any(gpu.has_bf16 for gpu in evidence.machine.gpus) else 0.0
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
        title=f"float32 where bfloat16 hardware idles: {percent(share)} of each step",
        what=f"Products and convolutions run in float32, and the {units} of this machine are not used.",
        share=share,
        evidence=(said, f"instruction sets: {' '.join(i for i in evidence.machine.isa if 'bf16' in i)}"
                  if not evidence.machine.gpus else f"GPU: {evidence.machine.gpus[0]}"),
        prediction=prediction,
        suggests=("channels_last+autocast",) if has_images else ("autocast",),
        remedy="",
        wrong_when="training needs more than the 8 significant bits of a bfloat16: the trial compares losses.",
    )  # fmt: skip


def _is_fp32(evidence: Evidence) -> bool:
    """Weights in float32, and no mixed precision yet, neither kept nor the user's own."""
    import torch

    models = evidence.objects.models.values()
    is_float = any(p.dtype == torch.float32 for model in models for p in model.parameters())
    return (
        is_float
        and "autocast" not in evidence.live
        and not evidence.mentions("autocast", "GradScaler", "bfloat16")
    )


def _on_cpu(evidence: Evidence, share: float) -> Prediction:
    convolutions = evidence.share_of_ops(is_convolution)
    amx = AMX_MOST / CONVOLUTIONS_CPU[2] if "amx_bf16" in evidence.machine.isa else 1.0
    parts = [
        Part(convolutions, CONVOLUTIONS_CPU[0], CONVOLUTIONS_CPU[1], CONVOLUTIONS_CPU[2] * amx),
        Part(share - convolutions, PRODUCTS_CPU[0], PRODUCTS_CPU[1], PRODUCTS_CPU[2] * amx),
    ]
    basis = f"convolutions, {percent(convolutions)} of the step, become 1.2 to 4.2 times as fast, other products 0.9 to 4.2"
    return amdahl(basis, *parts)


def _amdahl(share: float, factors: tuple[float, float, float]) -> Prediction:
    low, factor, high = factors
    return amdahl(
        f"products, {percent(share)} of the step, become {low:g} to {high:g} times as fast",
        Part(share, low, factor, high),
    )
