"""Matrix products and convolutions: the operations that low precision and memory layout make faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

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


def kernel_share(evidence: Evidence) -> float:
    """Share of the step in which the GPU multiplied matrices without its tensor cores."""
    device = evidence.device
    if device is None or not device.step_ms:
        return 0.0
    plain = (
        kernel.ms
        for kernel in device.kernels
        if not kernel.uses_tensor_cores and any(part in kernel.name.lower() for part in KERNELS)
    )
    return min(1.0, sum(plain) / device.step_ms)
