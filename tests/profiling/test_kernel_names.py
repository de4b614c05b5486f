"""What the names of kernels and copies tell."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accel.profiling.device_work import is_communication, uses_tensor_cores, what_was_copied

OF_NVIDIA = [
    "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_nn",
    "turing_fp16_s1688gemm_fp16_128x128_ldg8_f2f_tn",
    "ampere_fp16_s16816gemm_fp16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn",
    "sm80_xmma_fprop_implicit_gemm_tf32f32_tf32f32_f32_nhwckrsc_nchw_tilesize128x128x16_stage4_warpsize2x2x1_g1_tensor16x8x8_execute_kernel_cudnn",
    "sm90_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize128x128x32_warpgroupsize1x1x1_execute_segment_k_on_kernel__5x_cublas",
    "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x128_32x5_nn_align8>(...)",
    "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::MainloopSm100TmaUmmaWarpSpecialized<8>>>",
    "nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>(...)",
    "void cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>(...)",
    "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel<...>)",
]  # fmt: skip
OF_AMD = [
    "Cijk_Ailk_Bljk_HHS_BH_MT128x128x16_MI16x16x16x1_SN_1LDSB0_APM1_K1",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1",
    "void ck::kernel_gemm_xdl_cshuffle_v1<ck::GridwiseGemm_k0mk1_k0nk1_mn_xdl_cshuffle_v1<...>>(...)",
    "void ck_tile::kentry<256, 2, ck_tile::FmhaFwdKernel<ck_tile::BlockFmhaPipelineQRKSVSAsync<...>>>(...)",
    "void paged_attention_ll4mi_QKV_mfma16_kernel<__hip_bfloat16, 8>(...)",
]  # fmt: skip
OF_LIBRARIES = [
    "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 7168u, 16384u, 1u, 64u, 128u>(...)",
    "void marlin::Marlin<__nv_bfloat16, 1125899906909960l, 256, 4, 16, 4>(...)",
    "fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ128Kv128PersistentContext",
    "bmm_Bfloat16_E2m1E2m1_Fp32_t128x8x512_s3_et64x8_m64x8x64_cga1x1x1_16dp256b_rM_TN_transOut_sm100f",
    "void attention_kernel<cute::SM80_16x8x16_F32BF16BF16F32_TN>(...)",
    "gemm_kernel_dpas_bf16_256x256x32",
    "void at::native::tinygemm_m16n8k16_chunk_kernel<at::native::ALayout_RM<...>, 8, 16>(...)",
    "void my_mma_m16n8k8_softmax_kernel(...)",
]  # fmt: skip
ON_TENSOR_CORES = [*OF_NVIDIA, *OF_AMD, *OF_LIBRARIES]
ON_PLAIN_CORES = [
    "ampere_sgemm_128x64_nn",
    "volta_dgemm_64x64_nt",
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x128_8x4_nn_align1>(...)",
    "sm80_xmma_fprop_implicit_gemm_indexed_f32f32_f32f32_f32_nchwkcrs_nchw_tilesize32x32x8_stage3_warpsize1x2x1_g1_ffma_aligna4_alignc4_execute_kernel__5x_cudnn",
    "void at::native::(anonymous namespace)::cuComputePartGradGammaBeta<float, float>(...)",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>(int)",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::sum_functor<float>>>(...)",
    "void cub::DeviceReduceSingleTileKernel<cub::Policy600>(...)",
    "void rocprim::detail::onesweep_kernel(...)",
    "Cijk_Ailk_Bljk_SB_MT64x64x8_SN_1LDSB0_APM1",
    "MIOpenBatchNormFwdTrainSpatial",
    "triton_poi_fused_add_relu_0",
    "triton_poi_fused__scaled_dot_product_flash_attention_0",
    "triton_per_fused_attention_softmax_2",
    "triton_red_fused_native_layer_norm_3",
]  # fmt: skip
UNKNOWN = [
    "triton_tem_fused_mm_0",
    "triton_tem_fused_addmm_native_layer_norm_3",
    "triton_tem_fused__softmax_bmm_1",
    "_fused_softmax_attention_fwd",
    "fused_softmax_attn_kernel",
    "fused_moe_kernel",
    "_fwd_grouped_kernel_stage1",
    "kernel_unified_attention_2d",
    "void my_own_kernel(float*)",
]  # fmt: skip
COMMUNICATION = [
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC",
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 8>(c10::BFloat16*, long)",
    "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 8, 8>(...)",
    "void vllm::cross_device_reduce_2stage<__nv_bfloat16, 8>(...)",
    "void aiter::allreduce_fusion_kernel_1stage<...>(...)",
    "void tensorrt_llm::kernels::ar_fusion::allreduce_fusion_kernel_oneshot_lamport<...>(...)",
    "void tensorrt_llm::kernels::twoShotAllReduceKernel<...>(...)",
    "void flashinfer::trtllm_mnnvl_allreduce::oneshotAllreduceFusionKernel<...>(...)",
    "void deep_ep::intranode::dispatch<8, 768, 16384>(...)",
    "void deep_ep::internode_ll::combine<...>(...)",
    "void quickreduce::allreduce_prototype_twoshot<...>(...)",
    "void mscclpp::allreduce7(...)",
    "mscclKernel_Sum_half_LL_false",
    "mscclKernel_Sum_float_Simple_true",
    "userbuffers_fp16_sum_inplace_gpu_rr_rs_oop_fp8",
    "nvshmemi_proxy_quiet_kernel",
    "void all_to_all_single_kernel<float>(...)",
    "void moe_reduce_scatter_kernel(...)",
    "void dpsk::ep::internode::combine<__nv_bfloat16, 8>(...)",
    "void mooncake::ep::dispatch<4, 7168>(...)",
    "void mori::moe::EpDispatchInterNodeKernel<hip_bfloat16>(...)",
    "EpCombineIntraNodeKernel",
    "void tensorrt_llm::kernels::mnnvl::moeA2ADispatchKernel<...>(...)",
    "void pplx::a2a::a2a_dispatch_recv_kernel<...>(...)",
    "oneccl_allgatherv_small",
]  # fmt: skip
OF_ONE_GPU = [
    "void fastertransformer::blockAllReduceSum<float>(...)",
    "void oneflow::softmax::SoftmaxWarpImpl<..., WarpAllReduce>(...)",
    "void ln::block_all_reduce_kernel(...)",
    "void smallReduce<float>(...)",
    "void step_dispatch_kernel(...)",
    "void deep::combine_heads(...)",
    "void rotate_alpha2a3(...)",
    "void vllm::moe::moe_align_block_size_kernel<int>(...)",
]  # fmt: skip


@pytest.mark.parametrize("kernel", ON_TENSOR_CORES)
def test_matrix_kernels_on_tensor_cores_are_known_by_their_names(kernel):
    assert uses_tensor_cores(kernel) is True


@pytest.mark.parametrize("kernel", [*ON_PLAIN_CORES, *COMMUNICATION])
def test_kernels_on_plain_cores_are_not_taken_for_them(kernel):
    assert uses_tensor_cores(kernel) is False


@pytest.mark.parametrize("kernel", UNKNOWN)
def test_of_a_kernel_whose_name_does_not_tell_nothing_is_claimed(kernel):
    assert uses_tensor_cores(kernel) is None


@pytest.mark.parametrize("kernel", COMMUNICATION)
def test_kernels_that_exchange_data_between_gpus_are_communication(kernel):
    assert is_communication(kernel)


@pytest.mark.parametrize("kernel", [*ON_TENSOR_CORES, *ON_PLAIN_CORES, *UNKNOWN, *OF_ONE_GPU])
def test_kernels_that_compute_on_one_gpu_are_no_communication(kernel):
    assert not is_communication(kernel)


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
    assert uses_tensor_cores(name) in (True, False, None)
    assert is_communication(name) in (True, False)
    assert all(what_was_copied(name)) or not name
