"""The operations that low precision and memory layout make faster: products, convolutions, pooling and normalisation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accel.diagnosis.predicting import Part

if TYPE_CHECKING:
    from accel.diagnosis.evidence import Evidence
    from accel.profiling.op_table import OpRow


CONVOLUTIONS = ("convolution", "conv_depthwise", "slow_conv")
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::linear", "scaled_dot_product", "mkldnn_linear",
            "mkldnn_rnn", "aten::_thnn_fused", "aten::addmv", "aten::mv")  # fmt: skip
KERNELS = ("gemm", "conv", "wgrad", "dgrad", "fprop", "cutlass", "winograd")


def is_convolution(row: OpRow) -> bool:
    """Whether it is a convolution, forward or backward."""
    return any(part in row.op for part in CONVOLUTIONS)


def is_product(row: OpRow) -> bool:
    """Whether it is a matrix product or a convolution, forward or backward."""
    return is_product_name(row.op)


def is_product_name(op: str) -> bool:
    """The same for the name of an operation."""
    return any(part in op for part in (*CONVOLUTIONS, *PRODUCTS))


def ms_a_call(rows: tuple[OpRow, ...]) -> float:
    """Mean time of one call in ms; 0 without calls."""
    calls = sum(row.calls for row in rows)
    return sum(row.self_ms for row in rows) / calls if calls else 0.0


def kernel_share(evidence: Evidence, *, on_any_cores: bool = False) -> float:
    """Share of the step in which the GPU multiplied matrices without tensor cores; with `on_any_cores`, on any cores."""
    device = evidence.device
    if device is None or not device.step_ms:
        return 0.0
    plain = (
        kernel.ms
        for kernel in device.kernels
        if (on_any_cores or kernel.uses_tensor_cores is False)
        and any(part in kernel.name.lower() for part in KERNELS)
    )
    return min(1.0, sum(plain) / device.step_ms)


# Ratios of CPU time, NCHW over channels-last, on one core of an AMD EPYC with avx512_bf16, torch 2.14, 32 to 256 channels
# of 8×8 to 32×32 in batches of 16 and 64: pooling forward 6 to 25, batch normalisation forward 3.3 to 4.1 (vectorised over
# channels, which NCHW kernels are not); backward 0.4 to 2.6, with no clear direction. In steps
# that also convert their images the gain was smaller, so the ranges begin lower.
POOLING = (2.5, 9.0, 25.0)
NORMALISATION = (1.5, 3.0, 4.3)
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
