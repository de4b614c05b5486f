"""What the names of kernels and copies tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.profiling.device_work import is_communication, uses_tensor_cores, what_was_copied

ON_TENSOR_CORES = [
    "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn",
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
    "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_execute_kernel_cudnn",
    "sm90_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_on_kernel__5x_cublas",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x5_nn_align8>(...)",
    "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(...)",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<...>)",
]  # fmt: skip
ON_PLAIN_CORES = [
    "ampere_sgemm_128x64_nn",
    "volta_dgemm_64x64_nt",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(...)",
    "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_warpsize1x2x1_g1_ffma_aligna4_alignc4_execute_kernel__5x_cudnn",
    "void at::native::(anonymous namespace)::cuComputePartGradGammaBeta<float, float>(...)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
    "triton_poi_fused_add_relu_0",
]  # fmt: skip


@pytest.mark.parametrize("kernel", ON_TENSOR_CORES)
def test_matrix_kernels_on_tensor_cores_are_known_by_their_names(kernel):
    assert uses_tensor_cores(kernel)


@pytest.mark.parametrize("kernel", ON_PLAIN_CORES)
def test_kernels_on_plain_cores_are_not_taken_for_them(kernel):
    assert not uses_tensor_cores(kernel)


def test_kernels_of_nccl_are_communication():
    assert is_communication("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)")
    assert is_communication("ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)")
    assert not any(map(is_communication, ON_TENSOR_CORES + ON_PLAIN_CORES))


@pytest.mark.parametrize(
    ("name", "kind", "memory"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "host to device", "pageable"),
        ("Memcpy HtoD (Pinned -> Device)", "host to device", "pinned"),
        ("Memcpy DtoH (Device -> Pageable)", "device to host", "pageable"),
        ("Memcpy DtoH (Device -> Pinned)", "device to host", "pinned"),
        ("Memcpy DtoD (Device -> Device)", "device to device", "device"),
        ("Memcpy PtoP (Device -> Device)", "device to device", "device"),
        ("Memcpy HtoD", "host to device", "unknown"),
        ("CopyHostToDevice", "CopyHostToDevice", "unknown"),
    ],
)
def test_copies_tell_from_where_to_where(name, kind, memory):
    assert what_was_copied(name) == (kind, memory)


@given(st.text())
def test_no_name_is_too_strange(name):
    assert isinstance(uses_tensor_cores(name), bool)
    assert all(what_was_copied(name)) or not name
