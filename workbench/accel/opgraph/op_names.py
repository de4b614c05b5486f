"""What ONNX calls the operations of PyTorch; the graph shows these names, and ATen's own where none is known here."""

from __future__ import annotations

from collections.abc import Sequence

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
