"""FLOPs and bytes of what multiplies and adds: matrix products, convolutions, attention, recurrent layers.

Sources: formulas of `torch.utils.flop_counter` for matrix products and attention; convolutions by hand, for the kernels
that really run (`aten::mkldnn_convolution`, `aten::cudnn_convolution`, …) are not among those.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from accel.profiling.op_inputs import OpInputs, Shape, TensorInput, TensorList, each_dimension

MATRIX = frozenset({
    "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mv", "aten::addmv", "aten::dot", "aten::_scaled_mm",
    "aten::mkldnn_linear", "mkl::_mkl_linear", "mkldnn::_linear_pointwise",
})  # fmt: skip
CONVOLUTION = frozenset({
    "aten::_convolution", "aten::mkldnn_convolution", "aten::cudnn_convolution", "aten::cudnn_convolution_relu",
    "aten::cudnn_convolution_transpose", "aten::miopen_convolution", "aten::miopen_convolution_transpose",
    "aten::miopen_depthwise_convolution", "aten::_slow_conv2d_forward", "aten::slow_conv3d_forward",
    "aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d", "aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d",
    "aten::_conv_depthwise2d", "aten::conv_depthwise3d", "aten::_nnpack_spatial_convolution", "aten::_mps_convolution",
    "mkldnn::_convolution_pointwise",
})  # fmt: skip
CONVOLUTION_BACKWARD = frozenset({"aten::convolution_backward", "aten::_slow_conv2d_backward"})
ATTENTION = frozenset({
    "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_efficient_attention",
    "aten::_scaled_dot_product_cudnn_attention", "aten::_scaled_dot_product_flash_attention_for_cpu",
})  # fmt: skip
ATTENTION_BACKWARD = frozenset(f"{name}_backward" for name in ATTENTION)
RECURRENT = frozenset({"aten::mkldnn_rnn_layer", "aten::_cudnn_rnn"})
RECURRENT_BACKWARD = frozenset({"aten::mkldnn_rnn_layer_backward", "aten::_cudnn_rnn_backward"})
CONTRACTIONS = (
    MATRIX
    | CONVOLUTION
    | CONVOLUTION_BACKWARD
    | ATTENTION
    | ATTENTION_BACKWARD
    | RECURRENT
    | RECURRENT_BACKWARD
)


def contraction(inputs: OpInputs) -> tuple[float, float] | None:
    """(FLOPs, bytes) of one call; None when its arguments are not what they usually are.

    >>> contraction(inputs)                 # of aten::mm on [64, 512] × [512, 10]
    (655360.0, 154112.0)
    """
    op = inputs.op
    if op in MATRIX:
        return _matrix(inputs)
    if op in CONVOLUTION:
        return _convolution(inputs)
    if op in CONVOLUTION_BACKWARD:
        return _convolution_backward(inputs)
    if op in ATTENTION or op in ATTENTION_BACKWARD:
        return _attention(inputs)
    return _recurrent(inputs)


def _matrix(inputs: OpInputs) -> tuple[float, float] | None:
    """(…, m, k) times (…, k, n): the last two tensors of two or three; a linear layer's weight is (n, k)."""
    tensors = inputs.tensors
    named = inputs.op.rpartition("::")[2]
    if named in ("addmm", "baddbmm", "addmv"):
        left, right = tensors[1:3]
    elif len(tensors) >= 2:
        left, right = tensors[:2]
    else:
        return None
    if not left.shape or not right.shape:
        return None
    rows, depth = left.elements // max(left.shape[-1], 1), left.shape[-1]
    columns = right.elements // max(depth, 1) if named != "bmm" and named != "baddbmm" else right.shape[-1]
    result = rows * columns * left.element_bytes
    return 2.0 * rows * depth * columns, float(_bytes(tensors) + result)


def _convolution(inputs: OpInputs) -> tuple[float, float] | None:
    images, weight = _named(inputs, "self", "input", "X"), _named(inputs, "weight", "W")
    if images is None or weight is None or len(images.shape) < 3:
        return None
    if "transpose" in inputs.op or inputs.value("transposed") is True:
        multiplications = images.elements * math.prod(weight.shape[1:])
        result = _transposed_size(images.shape, weight.shape, inputs)
    else:
        result = _convolved_size(images.shape, weight.shape, inputs)
        multiplications = result * math.prod(weight.shape[1:])
    return 2.0 * multiplications, float(_bytes(inputs.tensors) + result * images.element_bytes)


def _convolution_backward(inputs: OpInputs) -> tuple[float, float] | None:
    """The gradients of input and weight each cost as much as the forward; that of the bias is negligible."""
    gradient = _named(inputs, "grad_output")
    images, weight = _named(inputs, "input", "self"), _named(inputs, "weight")
    mask = inputs.value("output_mask")
    if gradient is None or images is None or weight is None or not isinstance(mask, tuple):
        return None
    larger = images if inputs.value("transposed") is True else gradient
    once = 2.0 * larger.elements * math.prod(weight.shape[1:])
    wanted = [tensor for tensor, is_wanted in zip((images, weight), mask, strict=False) if is_wanted]
    return once * len(wanted), float(_bytes([gradient, images, weight]) + _bytes(wanted))


def _attention(inputs: OpInputs) -> tuple[float, float] | None:
    """Two matrix products forward, five backward; as if nothing were masked."""
    from torch.utils import flop_counter

    query, key, value = (_named(inputs, name) for name in ("query", "key", "value"))
    if query is None or key is None or value is None or {len(t.shape) for t in (query, key, value)} != {4}:
        return None
    shapes = [query.shape, key.shape, value.shape]
    moved = _bytes(inputs.tensors)
    if inputs.op in ATTENTION_BACKWARD:
        flops = flop_counter.sdpa_backward_flop_count(*shapes[2:], *shapes)  # type: ignore[no-untyped-call]
        return float(flops), float(moved + _bytes([query, key, value]))
    result = query.elements // max(query.shape[-1], 1) * value.shape[-1]
    flops = flop_counter.sdpa_flop_count(*shapes)  # type: ignore[no-untyped-call]
    return float(flops), float(moved + result * query.element_bytes)


def _recurrent(inputs: OpInputs) -> tuple[float, float] | None:
    """Every weight matrix meets every step of every sequence; backward does it twice."""
    tensors = inputs.tensors
    weights = next(
        (argument.tensors for argument in inputs.arguments if isinstance(argument, TensorList)), tensors[1:3]
    )
    if not tensors or not tensors[0].shape:
        return None
    steps = tensors[0].elements // max(tensors[0].shape[-1], 1)
    once = 2.0 * steps * sum(weight.elements for weight in weights if len(weight.shape) > 1)
    return once * (2 if inputs.op in RECURRENT_BACKWARD else 1), float(_bytes(tensors) + tensors[0].bytes)


def _convolved_size(images: Shape, weight: Shape, inputs: OpInputs) -> int:
    kernel, spatial = weight[2:], images[-len(weight[2:]) :]
    numbers = _window(inputs, len(kernel))
    sizes = zip(spatial, kernel, *numbers, strict=True)
    places: int = math.prod(
        (size + 2 * padding - dilation * (taps - 1) - 1) // stride + 1
        for size, taps, stride, padding, dilation in sizes
    )
    return math.prod(images[: -len(kernel) - 1]) * weight[0] * places


def _transposed_size(images: Shape, weight: Shape, inputs: OpInputs) -> int:
    kernel, spatial = weight[2:], images[-len(weight[2:]) :]
    numbers = _window(inputs, len(kernel))
    groups = inputs.value("groups")
    extra = each_dimension(inputs.value("output_padding"), len(kernel), 0)
    sizes = zip(spatial, kernel, *numbers, extra, strict=True)
    channels = weight[1] * (groups if isinstance(groups, int) else 1)
    places: int = math.prod(
        (size - 1) * stride - 2 * padding + dilation * (taps - 1) + more + 1
        for size, taps, stride, padding, dilation, more in sizes
    )
    return math.prod(images[: -len(kernel) - 1]) * channels * places


def _window(inputs: OpInputs, count: int) -> tuple[Shape, Shape, Shape]:
    """Stride, padding and dilation of each spatial dimension."""
    return (
        each_dimension(inputs.value("stride"), count, 1),
        each_dimension(inputs.value("padding"), count, 0),
        each_dimension(inputs.value("dilation"), count, 1),
    )


def _named(inputs: OpInputs, *names: str) -> TensorInput | None:
    found = inputs.value(*names)
    return found if isinstance(found, TensorInput) else None


def _bytes(tensors: Iterable[TensorInput]) -> int:
    return sum(tensor.bytes for tensor in tensors)
