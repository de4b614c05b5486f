"""The cell computes in bfloat16 or float16 on hardware that has no instructions for the format and emulates it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from accel.diagnosis.evidence import LEAST_SHARE
from accel.diagnosis.predicting import Part, amdahl
from accel.diagnosis.products import is_product, kernel_share
from accel.machine.number_formats import on_nvidia
from accel.profiling.findings import Finding
from accel.units import percent

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence

# Speed-up of float32 over emulated products, forward and backward, on one core of an EPYC with oneDNN restricted to older
# instructions (torch 2.14; linear layers of 64 and 512 units, convolutions of 8 and 32 channels): bfloat16 1.7 to 2.7 with
# AVX-512 and 3.1 to 11 with AVX2, float16 3.7 to 13. Three whole cells in float16 became 6.7 to 8.4 times as fast in float32:
# products gain more in a cell than alone, and other operations gain too.
PRODUCTS = {"avx512": (1.5, 2.5, 8.0), "bfloat16": (1.5, 5.0, 15.0), "float16": (1.5, 8.0, 25.0)}
OTHERS = (1.0, 2.0, 6.0)
MODEL = ("forward", "loss", "backward", "recompute")


def low_precision_emulated(evidence: Evidence) -> Finding | None:
    """Autocast or weights in a 16-bit format that the CPU or GPU has no instructions for."""
    is_off = "autocast_off" in evidence.live
    cast, weights = [] if is_off else _formats_of_autocast(evidence), _formats_of_weights(evidence)
    slow = [each for each in (*cast, *weights) if _is_emulated(evidence, each)]
    share = (
        kernel_share(evidence, on_any_cores=True) if evidence.on_gpu else evidence.share_of_ops(is_product)
    )
    if not slow or share < LEAST_SHARE:
        return None
    number_format, is_cast = slow[0], slow[0] in cast
    device = evidence.machine.gpus[0].name if evidence.on_gpu else evidence.machine.cpu_model
    has_avx512 = not evidence.on_gpu and any(each.startswith("avx512") for each in evidence.machine.isa)
    low, factor, high = PRODUCTS["avx512" if number_format == "bfloat16" and has_avx512 else number_format]
    low = 1.0 if is_cast else low  # autocast may enclose only a few of the products
    others = 0.0 if evidence.on_gpu else max(0.0, evidence.share(*MODEL) - share)
    return Finding(
        kind="low_precision_emulated",
        title=f"{number_format} without hardware support: up to {percent(share)} of each step",
        what=f"{'Autocast casts to' if is_cast else 'The weights are in'} {number_format}, for which {device} has no "
        "instructions: each matrix product converts its inputs to float32, multiplies, and rounds the result.",
        share=share,
        evidence=(f"{'autocast in the cell' if is_cast else 'weights'}: {number_format}",
                  f"products and convolutions: {percent(share)} of the step"),
        prediction=amdahl(
            f"in float32, products and convolutions, {percent(share)} of the step, become {low:g} to {high:g} times as fast"
            + (f"; the model's other operations, {percent(others)}, up to {OTHERS[-1]:g} times" if others else ""),
            Part(share, low, factor, high), Part(others, *OTHERS),
        ),
        suggests=("autocast_off",) if is_cast else (),
        remedy="Remove autocast, and the GradScaler if there is one." if is_cast
        else "Keep the weights in float32: model.float(), and inputs in float32 too.",
        wrong_when="you are testing code for hardware that supports the format.",
        line=evidence.line_where(lambda node: getattr(node, "attr", getattr(node, "id", "")) == "autocast") if is_cast else 0,
    )  # fmt: skip


def _formats_of_autocast(evidence: Evidence) -> list[str]:
    conditions, device = evidence.profile.whole_run.conditions, evidence.objects.device_type
    return [each for on, each in conditions.autocast if on == device] if conditions is not None else []


def _formats_of_weights(evidence: Evidence) -> list[str]:
    """The format of most weights."""
    counts = Counter[str]()
    for model in evidence.objects.models.values():
        for weight in model.parameters():
            counts[str(weight.dtype).removeprefix("torch.")] += weight.numel()
    return [number_format for number_format, _ in counts.most_common(1)]


def _is_emulated(evidence: Evidence, number_format: str) -> bool:
    """Whether this device emulates the format; False if the device or its instructions are unknown."""
    machine, device = evidence.machine, evidence.objects.device_type
    has_it: dict[str, bool] = {}
    if device == "cuda" and (support := [on_nvidia(gpu.capability) for gpu in machine.gpus]):
        has_it = {
            name: any(each[short] != "emulated" for each in support)
            for name, short in (("bfloat16", "bf16"), ("float16", "fp16"))
        }
    elif device == "cpu" and machine.isa:
        has_it = {"bfloat16": machine.has_cpu_bf16, "float16": machine.has_cpu_fp16}
    return not has_it.get(number_format, True)
