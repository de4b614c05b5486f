"""From operations in the order they ran to the nodes that are shown: what only prepares weights, or does nothing, is not.

Nodes bear the names of ONNX, and ATen's own where none is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from accel.opgraph.costed_parts import OpNode
from accel.opgraph.op_arithmetic import aten_name, names_of, sizes

_SAME_NAME = {
    "Abs": "abs", "Add": "add", "ArgMax": "argmax", "ArgMin": "argmin", "Ceil": "ceil", "Concat": "cat concat stack",
    "Conv": "conv1d conv2d conv3d convolution _convolution mkldnn_convolution cudnn_convolution",
    "ConvTranspose": "conv_transpose1d conv_transpose2d conv_transpose3d", "Cos": "cos", "CumSum": "cumsum",
    "Div": "div divide true_divide", "Dropout": "dropout feature_dropout native_dropout", "Einsum": "einsum", "Elu": "elu",
    "Equal": "eq", "Erf": "erf", "Exp": "exp", "Expand": "expand expand_as broadcast_to", "Floor": "floor",
    "GRU": "gru", "Gemm": "addmm", "Gather": "embedding select index_select index", "GatherElements": "gather", "Gelu": "gelu",
    "Greater": "gt", "GreaterOrEqual": "ge", "GroupNormalization": "group_norm native_group_norm",
    "HardSigmoid": "hardsigmoid", "HardSwish": "hardswish", "InstanceNormalization": "instance_norm",
    "LSTM": "lstm", "LayerNormalization": "layer_norm native_layer_norm", "LeakyRelu": "leaky_relu", "Less": "lt",
    "LessOrEqual": "le", "Log": "log", "LogSoftmax": "log_softmax _log_softmax", "MatMul": "matmul mm bmm baddbmm",
    "Max": "maximum", "Min": "minimum", "Mish": "mish", "Mul": "mul multiply", "Neg": "neg", "Not": "logical_not",
    "OneHot": "one_hot", "PRelu": "prelu", "Pad": "pad constant_pad_nd", "Pow": "pow square", "RNN": "rnn_tanh rnn_relu",
    "AveragePool": "avg_pool1d avg_pool2d avg_pool3d",
    "BatchNormalization": "batch_norm native_batch_norm _native_batch_norm_legit_no_training cudnn_batch_norm",
    "Cast": "to _to_copy type_as", "Clip": "clamp clamp_min clamp_max clip hardtanh relu6",
    "DepthToSpace": "pixel_shuffle", "SpaceToDepth": "pixel_unshuffle",
    "MaxPool": "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices mkldnn_max_pool2d",
    "Attention": "scaled_dot_product_attention _scaled_dot_product_flash_attention "
                 "_scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_efficient_attention "
                 "_scaled_dot_product_cudnn_attention",
    "RMSNormalization": "rms_norm", "ReduceMax": "max amax", "ReduceMean": "mean", "ReduceMin": "min amin",
    "ReduceProd": "prod", "ReduceSum": "sum", "Relu": "relu",
    "Reshape": "view reshape flatten unflatten _unsafe_view view_as _reshape_alias",
    "Resize": "interpolate upsample_nearest1d upsample_nearest2d upsample_bilinear2d upsample_bicubic2d upsample_linear1d",
    "Selu": "selu", "Sigmoid": "sigmoid", "Sign": "sign", "Sin": "sin", "Slice": "slice narrow",
    "Softmax": "softmax _softmax", "Softplus": "softplus", "Split": "split split_with_sizes chunk unbind tensor_split",
    "Sqrt": "sqrt", "Squeeze": "squeeze", "Sub": "sub subtract", "Tan": "tan", "Tanh": "tanh", "Tile": "repeat tile",
    "TopK": "topk", "Transpose": "transpose permute t numpy_T mT movedim", "Trilu": "tril triu",
    "Unsqueeze": "unsqueeze", "Where": "where masked_fill",
}  # fmt: skip
ONNX_NAMES = {aten: onnx for onnx, names in _SAME_NAME.items() for aten in names.split()}


def onnx_name(aten: str, output_shape: Sequence[object], input_rank: int) -> str:
    """The ONNX operator that an ATen operation becomes.

    >>> onnx_name("relu_", (64, 32, 28, 28), 4)
    'Relu'
    >>> onnx_name("linear", (64, 10), 2), onnx_name("linear", (64, 7, 10), 3)
    ('Gemm', 'MatMul')

    ONNX's Gemm takes matrices only, so that a linear layer over more dimensions is a MatMul.
    """
    name = aten if aten in ONNX_NAMES else aten.rstrip("_")
    if name == "linear":
        return "Gemm" if input_rank == 2 else "MatMul"
    if "adaptive" in name and "pool" in name:
        kind = "Max" if "max" in name else "Average"
        to_one = all(size == 1 for size in output_shape[2:])
        return f"Global{kind}Pool" if to_one else f"{kind}Pool"
    return ONNX_NAMES.get(name, name)


IDLE = names_of(
    "dropout feature_dropout alpha_dropout contiguous to _to_copy clone alias detach lift_fresh_copy"
)


class Value(NamedTuple):
    """Where a tensor comes from: nodes, parameters, and whether it is the same in every call of the model."""

    nodes: tuple[int, ...] = ()
    parameters: frozenset[str] = frozenset()
    is_constant: bool = False


@dataclass
class GraphBuilder:
    """Takes operations one after the other.

    `parameter_sizes` has the elements of each parameter by its name; a tied one goes by its first.
    """

    parameter_sizes: Mapping[str, int]
    nodes: list[OpNode] = field(default_factory=list)

    def add(
        self, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], out: Any, *,
        sources: Iterable[Value], module: tuple[str, str], flops: int | None, bytes_moved: int | None,
    ) -> Value:  # fmt: skip
        """One operation on tensors that came from `sources`; returns where its results come from."""
        from torch import Tensor
        from torch.utils._pytree import tree_leaves

        sources = list(sources)
        read = [leaf for leaf in tree_leaves((args, dict(kwargs))) if isinstance(leaf, Tensor)]
        results = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        name = aten_name(func)
        parameters = frozenset().union(*(source.parameters for source in sources))
        if all(source.is_constant for source in sources) and not _is_random(func):
            return Value((), parameters, True)
        if not results:
            return Value()
        if name.rstrip("_") in IDLE and sources and _is_same(read[0], results[0]):
            return sources[0]
        return self._node(name, read, results[0], sources, parameters, module, flops, bytes_moved)

    def _node(
        self, name: str, read: list[Any], result: Any, sources: list[Value], parameters: frozenset[str],
        module: tuple[str, str], flops: int | None, bytes_moved: int | None,
    ) -> Value:  # fmt: skip
        own = frozenset().union(*(source.parameters for source in sources if source.is_constant))
        node = OpNode(
            index=len(self.nodes),
            op=onnx_name(name, sizes(result), read[0].dim() if read else 0),
            aten=name,
            module=module[0],
            module_class=module[1],
            shape=sizes(result),
            dtype=str(result.dtype).removeprefix("torch."),
            parameters=sum(self.parameter_sizes[parameter] for parameter in own),
            parameter_names=tuple(sorted(own)),
            flops=flops,
            bytes=bytes_moved,
            inputs=tuple(sorted({index for source in sources for index in source.nodes})),
        )
        self.nodes.append(node)
        return Value((node.index,))


def _is_same(before: Any, after: Any) -> bool:
    return bool(before.shape == after.shape and before.dtype == after.dtype and before.device == after.device)


def _is_random(func: Any) -> bool:
    from torch import Tag

    return Tag.nondeterministic_seeded in getattr(func, "tags", ())
