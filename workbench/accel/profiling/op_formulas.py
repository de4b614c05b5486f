"""FLOPs and bytes of one call of an operation, by its family: what it computes and moves at the least.

A multiply-add counts as two. Contractions (matrix products, convolutions, attention, recurrent layers) are exact; other
floating-point work is counted in rough units of one per element, which never decides anything: it is bound by memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from accel.profiling.contractions import CONTRACTIONS, contraction
from accel.profiling.op_families import (
    FREE,
    FUSED_OPTIMIZERS,
    MOVES,
    POINTWISE,
    POOL_BACKWARDS,
    POOLED,
    POOLS,
    REDUCTIONS,
    ROWWISE,
)
from accel.profiling.op_inputs import OpInputs, Shape, TensorInput, each_dimension


@dataclass(frozen=True)
class CallCost:
    """One call: `flops` and `bytes`, and the family by which work is not counted twice when operations nest."""

    family: str
    flops: float
    bytes: float


NOTHING = CallCost("nothing", 0.0, 0.0)


def call_cost(inputs: OpInputs) -> CallCost | None:
    """The cost of one call; None when no formula is known.

    >>> call_cost(inputs).flops         # of aten::addmm on [64, 3136] × [3136, 512]
    205520896.0
    """
    namespace, _, full = inputs.op.partition("::")
    if inputs.op in CONTRACTIONS:
        found = contraction(inputs)
        return found if found is None else CallCost("contraction", *found)
    if namespace != "aten" or not inputs.is_whole:
        return None
    name = full.removesuffix("_")
    for formula in (_foreach, _fused, _elementwise, _rowwise, _reduction, _pool, _move):
        cost = formula(name, inputs)
        if cost is not None:
            return cost
    return NOTHING if name in FREE else None


def _elementwise(name: str, inputs: OpInputs) -> CallCost | None:
    tensors = inputs.tensors
    if name not in POINTWISE or not tensors:
        return None
    shape = _broadcast([tensor.shape for tensor in tensors])
    elements = math.prod(shape)
    element_bytes = 1 if not POINTWISE[name] and name not in ("where", "masked_fill") else _widest(tensors)
    return CallCost("pointwise", POINTWISE[name] * elements, _read(tensors) + elements * element_bytes)


def _foreach(name: str, inputs: OpInputs) -> CallCost | None:
    """One operation on lists of tensors: on the first list with every other, or with a number."""
    operation = name.removeprefix("_foreach_")
    per_element = {**POINTWISE, "copy": 0.0, "zero": 0.0, "norm": 2.0}.get(operation)
    if operation == name or per_element is None or not inputs.tensors:
        return None
    lists = [argument for argument in inputs.arguments if hasattr(argument, "tensors")]
    if not lists:
        return None
    written = sum(tensor.bytes for tensor in lists[0].tensors) if operation != "norm" else 0
    read = 0 if operation == "zero" else sum(tensor.bytes for one in lists for tensor in one.tensors)
    elements = sum(tensor.elements for tensor in lists[0].tensors)
    return CallCost("pointwise", per_element * elements, read + written)


def _fused(name: str, inputs: OpInputs) -> CallCost | None:
    if name not in FUSED_OPTIMIZERS:
        return None
    per_parameter, written_lists = FUSED_OPTIMIZERS[name]
    lists = [argument.tensors for argument in inputs.arguments if hasattr(argument, "tensors")]
    if not lists:
        return None
    elements = sum(tensor.elements for tensor in lists[0])
    one_list = sum(tensor.bytes for tensor in lists[0])
    read = sum(tensor.bytes for one in lists for tensor in one)
    return CallCost("optimizer", per_parameter * elements, read + written_lists * one_list)


def _rowwise(name: str, inputs: OpInputs) -> CallCost | None:
    tensors = inputs.tensors
    if name not in ROWWISE or not tensors:
        return None
    largest = max(tensors, key=lambda tensor: tensor.elements)
    return CallCost("rowwise", ROWWISE[name] * largest.elements, _read(tensors) + largest.bytes)


def _reduction(name: str, inputs: OpInputs) -> CallCost | None:
    tensors = inputs.tensors
    if name not in REDUCTIONS or not tensors:
        return None
    source = tensors[0]
    kept = source.elements if name == "cumsum" else math.prod(_reduced(source.shape, inputs.value("dim")))
    return CallCost(
        "reduction", REDUCTIONS[name] * source.elements, _read(tensors) + kept * source.element_bytes
    )


def _pool(name: str, inputs: OpInputs) -> CallCost | None:
    """Max pooling compares, mean pooling adds: once for each element of each window."""
    if name in POOLS:
        return _window_pool(name, inputs)
    tensors = inputs.tensors
    if name in POOLED and tensors and isinstance(size := inputs.value("output_size"), tuple):
        source = tensors[0]
        result = math.prod(source.shape[: -len(size)]) * math.prod(size)
        return CallCost("pool", float(source.elements), source.bytes + result * source.element_bytes)
    if name in POOL_BACKWARDS and len(tensors) > 1:
        source = tensors[1]
        return CallCost(
            "pool", float(max(tensors[0].elements, 0)), _read([tensors[0], *tensors[2:]]) + source.bytes
        )
    return None


def _window_pool(name: str, inputs: OpInputs) -> CallCost | None:
    source, window = inputs.tensors[0], inputs.value("kernel_size")
    if not isinstance(window, tuple):
        return None
    spatial = len(source.shape) - 2 if len(source.shape) > 3 else len(source.shape) - 1
    window = each_dimension(window, spatial, 1)
    stride = each_dimension(inputs.value("stride") or window, spatial, 1)
    padding = each_dimension(inputs.value("padding"), spatial, 0)
    dilation = each_dimension(inputs.value("dilation"), spatial, 1)
    rounding = math.ceil if inputs.value("ceil_mode") else math.floor
    sizes = zip(source.shape[-spatial:], window, stride, padding, dilation, strict=True)
    result = math.prod(source.shape[:-spatial]) * math.prod(
        rounding((size + 2 * pad - dilate * (kernel - 1) - 1) / step) + 1
        for size, kernel, step, pad, dilate in sizes
    )
    index_bytes = 8 if name.endswith("with_indices") else 0
    moved = source.bytes + result * (source.element_bytes + index_bytes)
    return CallCost("pool", float(result * math.prod(window)), moved)


def _move(name: str, inputs: OpInputs) -> CallCost | None:
    """Moving computes nothing; what is filled or drawn is written, not read."""
    tensors = inputs.tensors
    if name not in MOVES:
        return None
    if name in ("copy", "index_select", "gather", "index"):
        return _copy(name, tensors)
    if name in ("fill", "zero", "bernoulli", "normal", "uniform", "random"):
        return CallCost("move", 0.0, tensors[0].bytes if tensors else 0.0)
    return CallCost("move", 0.0, 2.0 * _read(tensors))


def _copy(name: str, tensors: list[TensorInput]) -> CallCost | None:
    """A copy writes the first and reads the second; a selection reads as much as it writes, and the indices."""
    if len(tensors) < 2:
        return None
    target, source = tensors[0], tensors[1]
    if name == "copy":
        return CallCost("move", 0.0, target.bytes + source.bytes)
    picked = source.elements * (math.prod(target.shape[1:]) if name == "index_select" else 1)
    return CallCost("move", 0.0, 2.0 * picked * target.element_bytes + source.bytes)


def _read(tensors: list[TensorInput]) -> float:
    return float(sum(tensor.bytes for tensor in tensors))


def _widest(tensors: list[TensorInput]) -> int:
    """Bytes of an element of the result: tensors without dimensions do not widen it."""
    return max(tensor.element_bytes for tensor in ([t for t in tensors if t.shape] or tensors))


def _broadcast(shapes: list[Shape]) -> Shape:
    longest = max(map(len, shapes))
    padded = [(1,) * (longest - len(shape)) + shape for shape in shapes]
    return tuple(0 if 0 in sizes else max(sizes) for sizes in zip(*padded, strict=True))


def _reduced(shape: Shape, dim: object) -> Shape:
    """What is left after a reduction over `dim`: a number, several, or all."""
    if isinstance(dim, int) and shape:
        dim = (dim,)
    if not isinstance(dim, tuple) or not dim or not shape:
        return ()
    gone = {place % len(shape) for place in dim}
    return tuple(size for place, size in enumerate(shape) if place not in gone)
