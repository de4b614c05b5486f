"""Which operations of ATen belong together, and what each costs an element; names without `aten::` and without a last `_`."""

from __future__ import annotations


def _words(names: str) -> list[str]:
    return names.split()


# FLOPs for each element of the result.
POINTWISE = {
    **dict.fromkeys(_words("""
        add sub rsub mul div neg abs sqrt rsqrt reciprocal square exp log log2 log1p expm1 sin cos tanh sigmoid erf pow clamp
        clamp_min clamp_max relu relu6 leaky_relu hardtanh hardtanh_backward maximum minimum threshold threshold_backward sign
        floor ceil round fmod remainder
    """), 1.0),
    **dict.fromkeys(_words("""
        eq ne lt le gt ge logical_and logical_or logical_not isneginf isnan isinf isfinite bitwise_and bitwise_or bitwise_not
        where masked_fill
    """), 0.0),
    "addcmul": 3.0, "addcdiv": 3.0, "lerp": 3.0, "leaky_relu_backward": 2.0, "sigmoid_backward": 3.0, "tanh_backward": 3.0,
    "silu": 4.0, "silu_backward": 8.0, "gelu": 8.0, "gelu_backward": 16.0, "elu": 3.0, "elu_backward": 3.0, "hardswish": 4.0,
    "hardswish_backward": 4.0, "hardsigmoid": 3.0, "hardsigmoid_backward": 2.0, "softplus": 4.0, "mish": 8.0,
    "native_dropout": 2.0, "native_dropout_backward": 2.0, "mse_loss": 2.0, "mse_loss_backward": 3.0, "smooth_l1_loss": 3.0,
    "binary_cross_entropy_with_logits": 6.0,
}  # fmt: skip
# FLOPs for each element of the largest tensor that goes in; the result is as large as that.
ROWWISE = {
    "_softmax": 5.0, "_log_softmax": 5.0, "_softmax_backward_data": 4.0, "_log_softmax_backward_data": 4.0,
    "native_batch_norm": 7.0, "_native_batch_norm_legit": 7.0, "cudnn_batch_norm": 7.0, "native_layer_norm": 7.0,
    "native_group_norm": 7.0, "native_batch_norm_backward": 11.0, "cudnn_batch_norm_backward": 11.0,
    "native_layer_norm_backward": 11.0, "native_group_norm_backward": 11.0, "_fused_rms_norm": 4.0,
    "_fused_rms_norm_backward": 8.0,
}  # fmt: skip
# FLOPs for each element that goes in.
REDUCTIONS = {
    **dict.fromkeys(_words("""
        sum mean prod max min amax amin argmax argmin nansum norm linalg_vector_norm logsumexp cumsum
    """), 1.0),
    **dict.fromkeys(_words("any all nll_loss_forward nll_loss2d_forward"), 0.0),
    "var": 4.0, "std": 4.0, "var_mean": 4.0,
}  # fmt: skip
POOLS = frozenset(_words("""
    max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d mkldnn_max_pool2d
"""))  # fmt: skip
POOLED = frozenset(_words("_adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_max_pool2d"))
POOL_BACKWARDS = frozenset(_words("""
    max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward
    _adaptive_avg_pool2d_backward adaptive_max_pool2d_backward
"""))  # fmt: skip
MOVES = frozenset(_words("""
    copy _to_copy clone contiguous cat stack index_select gather index fill zero zeros ones bernoulli normal uniform random
    repeat flip roll constant_pad_nd nll_loss_backward nll_loss2d_backward embedding_dense_backward scatter scatter_add index_add
    index_put _index_put_impl nonzero one_hot tril triu upsample_nearest2d _local_scalar_dense
"""))  # fmt: skip
# They give a view, or memory that is not written yet, or answer a question.
FREE = frozenset(_words("""
    view _unsafe_view _reshape_alias reshape as_strided expand t transpose permute unsqueeze squeeze select slice narrow split
    split_with_sizes chunk unbind detach alias diagonal unfold flatten unflatten empty empty_strided empty_like new_empty resize
    resize_as set lift_fresh resolve_conj resolve_neg is_nonzero item cudnn_is_acceptable _nnpack_available view_as expand_as
    data result_type can_cast to type_as set_data dropout scalar_tensor record_stream pin_memory is_pinned real imag
    view_as_real view_as_complex broadcast_tensors
"""))  # fmt: skip
# FLOPs for each parameter, and how many of the lists are written as well as read.
FUSED_OPTIMIZERS = {
    "_fused_adam": (12.0, 3), "_fused_adamw": (14.0, 3), "_fused_sgd": (5.0, 2), "_fused_adagrad": (6.0, 2),
}  # fmt: skip
