#include "gemm_library.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <stdexcept>

#include "../harness/device.h"

namespace stepcast::harness::cuda {
namespace {

using interop::GemmCase;
using job::DType;

template <typename T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t attribute, const T& value,
         const char* what) {
  check(cublasLtMatmulDescSetAttribute(desc, attribute, &value, sizeof value), what);
}

// Where hipBLASLt differs from cublasLt: MI300's fp8 is another format than OCP's, 4-bit operands
// have no type in every release (and are not measured), and all products are accumulated in fp32.
#ifdef __HIP_PLATFORM_AMD__
cudaDataType_t fp8_type(const GpuTarget& target) {
  return target.architecture.starts_with("gfx94") ? HIP_R_8F_E4M3_FNUZ : HIP_R_8F_E4M3;
}
cudaDataType_t fp4_type() { throw Unsupported("hipBLASLt: 4-bit operands are not measured"); }
void set_fast_accumulation(cublasLtMatmulDesc_t, bool) {}
#else
cudaDataType_t fp8_type(const GpuTarget&) { return CUDA_R_8F_E4M3; }
cudaDataType_t fp4_type() { return CUDA_R_4F_E2M1; }
void set_fast_accumulation(cublasLtMatmulDesc_t description, bool fast) {
  const std::int8_t value = fast ? 1 : 0;
  set(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, value, "fast accumulation");
}
#endif

// PyTorch's defaults for Hopper and later (CUBLAS_WORKSPACE_CONFIG :4096:8) and for Ampere.
constexpr std::size_t kWorkspaceHopper = std::size_t{32} << 20;
// PyTorch's for MI300 and MI350, from memory.
constexpr std::size_t kWorkspaceAmd = std::size_t{128} << 20;
constexpr std::size_t kWorkspaceAmpere = (std::size_t{4096} * 2 + 16 * 8) << 10;

cublasLtMatmulMatrixScale_t library_mode(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::vec16:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3;
    case ScaleMode::vec32:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0;
    case ScaleMode::vec128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F;
    case ScaleMode::block128:
      return CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
    default:
      return CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  }
}

}  // namespace

void check(cublasStatus_t status, const char* what) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return;
    case CUBLAS_STATUS_NOT_SUPPORTED:
    case CUBLAS_STATUS_ARCH_MISMATCH:
      throw Unsupported(fmt::format("{}: not supported by cublasLt", what));
    case CUBLAS_STATUS_ALLOC_FAILED:
      throw Unsupported(fmt::format("{}: cublasLt has not enough memory", what));
    default:
      throw std::runtime_error(fmt::format("{}: {}", what, cublasLtGetStatusString(status)));
  }
}

cublasLtHandle_t library_handle(int gpu) {
  // Never destroyed: the driver may already be unloaded when static objects are destroyed.
  static std::mutex mutex;
  static auto& handles = *new std::map<int, cublasLtHandle_t>;
  const std::lock_guard lock(mutex);
  cublasLtHandle_t& handle = handles[gpu];
  if (handle == nullptr) {
    check(cublasLtCreate(&handle), "cublasLtCreate");
  }
  return handle;
}

std::size_t workspace_bytes(const GpuTarget& target) {
  if (target.amd()) {
    return kWorkspaceAmd;
  }
  return target.compute_capability >= 9 ? kWorkspaceHopper : kWorkspaceAmpere;
}

cudaDataType_t data_type(DType storage, const GpuTarget& target) {
  switch (storage) {
    case DType::bf16:
      return CUDA_R_16BF;
    case DType::fp16:
      return CUDA_R_16F;
    case DType::fp8:
    case DType::fp8_block:
    case DType::mxfp8:
      return fp8_type(target);
    case DType::nvfp4:
    case DType::mxfp4:
      return fp4_type();
    case DType::int8:
      return CUDA_R_8I;
    case DType::fp32:
    case DType::tf32:
      break;
  }
  return CUDA_R_32F;
}

GemmDescription::Owned<cublasLtMatrixLayout_t> GemmDescription::layout(cudaDataType_t type,
                                                                       const MatrixView& matrix,
                                                                       std::int64_t batch) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(matrix.rows),
                                   static_cast<std::uint64_t>(matrix.cols), matrix.ld),
        "matrix layout");
  Owned<cublasLtMatrixLayout_t> owned(made);
  if (batch > 1) {
    const auto count = static_cast<std::int32_t>(batch);
    const std::int64_t stride = matrix.elements();
    check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                           sizeof count),
          "batch count");
    check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                           &stride, sizeof stride),
          "batch stride");
  }
  return owned;
}

GemmDescription::GemmDescription(const GemmCase& what, const GemmView& view,
                                 const GpuTarget& target)
    : accumulate_(what.accumulate_fp32) {
  const cublasComputeType_t compute =
      what.dtype == DType::tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t made = nullptr;
  check(cublasLtMatmulDescCreate(&made, compute, CUDA_R_32F), "matmul descriptor");
  operation_.reset(made);
  const auto op = [](const MatrixView& matrix) -> std::int32_t {
    return matrix.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(made, CUBLASLT_MATMUL_DESC_TRANSA, op(view.a), "transposition of A");
  set(made, CUBLASLT_MATMUL_DESC_TRANSB, op(view.b), "transposition of B");
  const Scales scales = scale_modes(what);
  if (scales.a != ScaleMode::none) {
    const std::int32_t a = library_mode(scales.a);
    const std::int32_t b = library_mode(scales.b);
    set(made, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, a, "scale mode of A");
    set(made, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, b, "scale mode of B");
  }
  // Transformer Engine's recipes: per-tensor forward products use the tensor cores' short
  // accumulator, and gradients are promoted to fp32 during accumulation.
  set_fast_accumulation(made,
                        what.dtype == DType::fp8 && what.layout == interop::GemmLayout::forward);

  const cudaDataType_t in = data_type(operand_type(what.dtype), target);
  a_ = layout(in, view.a, view.batch);
  b_ = layout(in, view.b, view.batch);
  d_ = layout(data_type(output_type(what), target), view.d, view.batch);
}

void GemmDescription::set_scales(const void* a, const void* b) {
  if (a != nullptr) {
    set(operation_.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, a, "scales of A");
  }
  if (b != nullptr) {
    set(operation_.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, b, "scales of B");
  }
}

cublasLtMatmulAlgo_t GemmDescription::choose(cublasLtHandle_t handle, std::size_t workspace) const {
  struct DestroyPreference {
    void operator()(cublasLtMatmulPreference_t p) const { cublasLtMatmulPreferenceDestroy(p); }
  };
  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "matmul preference");
  const std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, DestroyPreference> owned(
      made);
  const std::uint64_t bytes = workspace;
  check(cublasLtMatmulPreferenceSetAttribute(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes,
                                             sizeof bytes),
        "workspace size");
  // Operands start at multiples of 256 bytes, the default alignment of the preference.
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, operation_.get(), a_.get(), b_.get(), d_.get(), d_.get(), made, 1, &found, &count);
  // Only the library knows which sizes and types are compatible, and it reports that by either
  // status.
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
      (status == CUBLAS_STATUS_SUCCESS && (count == 0 || found.state != CUBLAS_STATUS_SUCCESS))) {
    const cublasStatus_t why = status != CUBLAS_STATUS_SUCCESS ? status
                               : count == 0                    ? CUBLAS_STATUS_NOT_SUPPORTED
                                                               : found.state;
    throw Unsupported(
        fmt::format("cublasLt has no kernel for it ({})", cublasLtGetStatusString(why)));
  }
  check(status, "cublasLtMatmulAlgoGetHeuristic");
  return found.algo;
}

void GemmDescription::run(cublasLtHandle_t handle, const cublasLtMatmulAlgo_t& algorithm,
                          const void* a, const void* b, void* d, void* workspace,
                          std::size_t workspace_size, cudaStream_t stream) const {
  const float alpha = 1;
  const float beta = accumulate_ ? 1 : 0;
  check(cublasLtMatmul(handle, operation_.get(), &alpha, a, a_.get(), b, b_.get(), &beta, d,
                       d_.get(), d, d_.get(), &algorithm, workspace, workspace_size, stream),
        "cublasLtMatmul");
}

}  // namespace stepcast::harness::cuda
