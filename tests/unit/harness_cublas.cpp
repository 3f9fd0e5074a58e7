// cublasLt's descriptors need no GPU: every type, pass and kind of scales is described to the
// library, and the attributes that it then returns are compared with the mapping.
#include "calibration/cuda/gemm_library.h"
#include "catch.hpp"

using namespace stepcast;
using namespace stepcast::harness::cuda;
using interop::GemmCase;
using interop::GemmLayout;
using job::DType;

namespace {

template <typename T>
T read(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute) {
  T value{};
  std::size_t written = 0;
  REQUIRE(cublasLtMatmulDescGetAttribute(desc, attribute, &value, sizeof value, &written) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(written == sizeof value);
  return value;
}

template <typename T>
T read(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute) {
  T value{};
  std::size_t written = 0;
  REQUIRE(cublasLtMatrixLayoutGetAttribute(layout, attribute, &value, sizeof value, &written) ==
          CUBLAS_STATUS_SUCCESS);
  REQUIRE(written == sizeof value);
  return value;
}

void require_layout(cublasLtMatrixLayout_t layout, const MatrixView& view, cudaDataType_t type,
                    std::int64_t batch) {
  CHECK(read<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS) ==
        static_cast<std::uint64_t>(view.rows));
  CHECK(read<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS) ==
        static_cast<std::uint64_t>(view.cols));
  CHECK(read<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD) == view.ld);
  CHECK(read<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER) == CUBLASLT_ORDER_COL);
  CHECK(read<std::uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE) ==
        static_cast<std::uint32_t>(type));
  CHECK(read<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) == batch);
  if (batch > 1) {
    CHECK(read<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) ==
          view.rows * view.cols);
  }
}

}  // namespace

TEST_CASE("the library takes and keeps the description of every product") {
  struct Type {
    DType dtype;
    cudaDataType_t operand, result;
    cublasLtMatmulMatrixScale_t a, b;  // in the forward pass
  };
  constexpr auto scalar = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  const Type types[] = {
      {DType::bf16, CUDA_R_16BF, CUDA_R_16BF, scalar, scalar},
      {DType::fp16, CUDA_R_16F, CUDA_R_16F, scalar, scalar},
      {DType::tf32, CUDA_R_32F, CUDA_R_32F, scalar, scalar},
      {DType::fp32, CUDA_R_32F, CUDA_R_32F, scalar, scalar},
      {DType::fp8, CUDA_R_8F_E4M3, CUDA_R_16BF, scalar, scalar},
      {DType::fp8_block, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
       CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F},
      {DType::mxfp8, CUDA_R_8F_E4M3, CUDA_R_16BF, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0,
       CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0},
      {DType::nvfp4, CUDA_R_4F_E2M1, CUDA_R_16BF, CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3,
       CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3},
  };
  for (const Type& type : types) {
    for (const GemmLayout layout :
         {GemmLayout::forward, GemmLayout::input_grad, GemmLayout::weight_grad}) {
      for (const double cc : {9.0, 10.0}) {
        for (const std::int64_t batch : {1, 3}) {
          for (const bool accumulate : {false, true}) {
            GemmCase c;
            c.dtype = type.dtype;
            c.layout = layout;
            c.m = 4096;
            c.n = 28672;
            c.k = 1 << 20;  // operands beyond 2^31 elements
            c.batch = batch;
            c.accumulate_fp32 = accumulate;
            CAPTURE(job::to_string(c.dtype), static_cast<int>(layout), cc, batch, accumulate);
            const GemmView view = gemm_view(c, needs_k_innermost(c.dtype, cc));
            GemmDescription description(c, view, 9.0);
            const float scale = 1;  // any address works, since the library only stores it
            description.set_scales(&scale, &scale);

            require_layout(description.a(), view.a, type.operand, batch);
            require_layout(description.b(), view.b, type.operand, batch);
            require_layout(description.d(), view.d, accumulate ? CUDA_R_32F : type.result, batch);
            const auto op = description.operation();
            CHECK(read<std::int32_t>(op, CUBLASLT_MATMUL_DESC_TRANSA) ==
                  (view.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
            CHECK(read<std::int32_t>(op, CUBLASLT_MATMUL_DESC_TRANSB) ==
                  (view.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N));
            CHECK(read<std::int32_t>(op, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE) ==
                  (c.dtype == DType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F));
            CHECK(read<std::int32_t>(op, CUBLASLT_MATMUL_DESC_SCALE_TYPE) == CUDA_R_32F);
            const bool weight_grad = layout == GemmLayout::weight_grad;
            CHECK(read<std::int32_t>(op, CUBLASLT_MATMUL_DESC_A_SCALE_MODE) ==
                  (weight_grad ? type.b : type.a));
            CHECK(read<std::int32_t>(op, CUBLASLT_MATMUL_DESC_B_SCALE_MODE) == type.b);
            CHECK(read<const void*>(op, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) == &scale);
            CHECK(read<const void*>(op, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER) == &scale);
            CHECK(read<std::int8_t>(op, CUBLASLT_MATMUL_DESC_FAST_ACCUM) ==
                  (c.dtype == DType::fp8 && layout == GemmLayout::forward ? 1 : 0));
          }
        }
      }
    }
  }
}

TEST_CASE("scales that a type does not have are left to the library's default") {
  GemmCase c;
  c.m = c.n = c.k = 64;
  const GemmView view = gemm_view(c, false);
  GemmDescription description(c, view, 9.0);
  description.set_scales(nullptr, nullptr);
  CHECK(read<const void*>(description.operation(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER) ==
        nullptr);
}

TEST_CASE("workspaces are those that frameworks give the library") {
  CHECK(workspace_bytes(9.0) == std::size_t{32} << 20);
  CHECK(workspace_bytes(10.0) == std::size_t{32} << 20);
  CHECK(workspace_bytes(8.0) == std::size_t{8320} << 10);
}
