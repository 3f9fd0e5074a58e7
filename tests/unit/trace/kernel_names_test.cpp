// Which kinds of kernels names stand for. The names are those of real profiles, arguments left out.
#include "catch.hpp"
#include "stepcast/trace/trace.h"

using namespace stepcast;
using trace::kernel_name;
using trace::Kind;

namespace {

struct Example {
  const char* name;
  Kind kind;
  const char* operation = "";
};

}  // namespace

TEST_CASE("kernels are told apart by their names") {
  const Example examples[] = {
      {"ampere_sgemm_128x64_nn", Kind::gemm},
      {"ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn", Kind::gemm},
      {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_"
       "segment_k_off_kernel__5x_cublas",
       Kind::gemm},
      {"sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize160x128x32", Kind::gemm},
      {"nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_TNT", Kind::gemm},
      {"nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN", Kind::gemm},
      {"Cijk_Alik_Bljk_SB_Bias_AS_SAV_UserArgs_MT64x16x32_MI16x16x1_SN", Kind::gemm},
      {"void "
       "cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_tn_align1>(cutlass_80_tensorop_"
       "s1688gemm_256x64_16x4_tn_align1::Params)",
       Kind::gemm},
      {"void cublasLt::splitKreduce_kernel<32, 16, int, "
       "float>(cublasLt::cublasSplitKParams<float>)",
       Kind::gemm},
      {"triton_tem_fused_mm_3", Kind::gemm},
      {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>, true>(Flash_fwd_params)",
       Kind::attention},
      {"void "
       "cutlass::device_kernel<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2>>>(flash:"
       ":Params)",
       Kind::attention},
      {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::AttentionKernel)",
       Kind::attention},
      {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128",
       Kind::attention},
      {"_attn_fwd", Kind::attention},
      {"void ck_tile::kentry<ck_tile::FmhaFwdKernel<int>>(int)", Kind::attention},
      {"void deep_gemm::fp8_gemm_kernel<7168u, 4096u, 128u, 128u, 128u, 8u, 5u, "
       "(deep_gemm::GemmType)0>(float*)",
       Kind::gemm},
      {"void deep_gemm::fp8_gemm_kernel<7168u, 4096u, 128u, 128u, 128u, 8u, 5u, "
       "(deep_gemm::GemmType)1>(float*)",
       Kind::grouped_gemm},
      {"void "
       "cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::"
       "GroupProblemShape<int>>>(int)",
       Kind::grouped_gemm},
      {"ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       Kind::communication, "all_reduce"},
      {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Kind::communication,
       "all_gather"},
      {"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
       Kind::communication, "reduce_scatter"},
      {"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclDevComm*, unsigned long, ncclWork*)",
       Kind::communication, "send_recv"},
      {"ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", Kind::communication, "generic"},
      {"void deep_ep::internode::dispatch<false, 8, false, 8>(int4*)", Kind::communication,
       "dispatch"},
      {"void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>(__nv_bfloat16*)",
       Kind::communication, "combine"},
      {"void deep_ep::internode::get_dispatch_layout<256, 32, 8>(long const*)", Kind::communication,
       "dispatch_layout"},
      {"void deep_ep::layout::get_dispatch_layout<256, 32, 8>(long const*)", Kind::communication,
       "dispatch_layout"},
      {"void deep_ep::internode::notify_dispatch<false, 8>(int const*)", Kind::communication,
       "notify"},
      {"void deep_ep::intranode::cached_notify_combine<4>(void**)", Kind::communication, "notify"},
      {"void dpsk::ep::internode::cached_notify<false>(int)", Kind::communication, "notify"},
      {"triton_poi_fused_add_mul_silu_0", Kind::generated},
      {"triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_1", Kind::generated},
      {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
       "std::array<char*, 3ul> >(int)",
       Kind::elementwise},
      {"void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<double>, "
       "TrivialOffsetCalculator<2, unsigned int>, at::native::memory::LoadWithCast<2>, "
       "at::native::memory::StoreWithCast<1> >(int)",
       Kind::elementwise},
      {"void at::native::elementwise_kernel<128, 4, "
       "at::native::gpu_kernel_impl<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)::{"
       "lambda()#3}> >(int)",
       Kind::layout},
      {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
       "at::native::MeanOps<float, float, float, float>>>(int)",
       Kind::reduction},
      {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 1, 128, "
       "1>(float*)",
       Kind::layout},
      {"void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)",
       Kind::norm},
      {"void (anonymous namespace)::softmax_warp_forward<float, float, float, 8, true, "
       "false>(float*)",
       Kind::softmax},
      {"void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous "
       "namespace)::FusedOptimizerTensorListMetadata<4>, at::native::(anonymous "
       "namespace)::FusedAdamMathFunctor<float, 4>>(int)",
       Kind::optimizer},
      {"void transformer_engine::multi_tensor_adam::multi_tensor_apply_kernel<4>(int)",
       Kind::optimizer},
      {"void fbgemm_gpu::permute_2D_data_kernel<false, int, int>(int)", Kind::indexing},
      {"split_embedding_codegen_forward_unweighted_kernel", Kind::embedding},
      {"_ZN19cutlass_cudnn_train6KernelINS_4conv6kernel23ImplicitGemmConvolutionEEE",
       Kind::convolution},
      {"sm80_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nchw",
       Kind::convolution},
      {"a_kernel_nobody_knows", Kind::other},
  };
  for (const Example& example : examples) {
    INFO(example.name);
    const trace::KernelName known = kernel_name(example.name);
    CHECK(std::string(to_string(known.kind)) == to_string(example.kind));
    CHECK(known.operation == example.operation);
  }
}

TEST_CASE("names are shown without types and arguments, wrappers with what they carry") {
  CHECK(kernel_name("void flash_fwd_kernel<Traits<128>, true>(Params)").shown ==
        "flash_fwd_kernel");
  CHECK(kernel_name(
            "void at::native::(anonymous namespace)::indexing_backward_kernel<float, 4>(long)")
            .shown == "indexing_backward_kernel");
  CHECK(kernel_name("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_nn>(int)").shown ==
        "cutlass_80_tensorop_s1688gemm_nn");
  CHECK(kernel_name("void at::native::vectorized_elementwise_kernel<4, "
                    "at::native::CUDAFunctor_add<float>, int>(int)")
            .shown == "vectorized_elementwise_kernel CUDAFunctor_add");
  CHECK(kernel_name("void "
                    "cutlass::device_kernel<dpsk::grouped_gemm::cuda::m_grouped_fp8_ptp128c::"
                    "GemmKernel>(int)")
            .shown == "m_grouped_fp8_ptp128c::GemmKernel");
  CHECK(kernel_name("_ZN3foo3barEi").shown == "foo::bar");
  CHECK(kernel_name("").shown.empty());
}

TEST_CASE("copies are told apart by their direction") {
  CHECK(trace::copy_name("Memcpy HtoD (Pinned -> Device)").kind == Kind::copy_to_device);
  CHECK(trace::copy_name("Memcpy DtoH (Device -> Pageable)").kind == Kind::copy_to_host);
  CHECK(trace::copy_name("Memcpy DtoD (Device -> Device)").kind == Kind::copy_on_device);
  CHECK(trace::copy_name("Memcpy PtoP (Device -> Device)").kind == Kind::copy_between_devices);
  CHECK(trace::copy_name("Memset (Device)").kind == Kind::memset);
}
