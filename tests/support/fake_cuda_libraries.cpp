// cublasLt and cuDNN that compute nothing: fake_gpu.h. Descriptors of cublasLt are the real
// library's.
#include <cublasLt.h>
#include <cudnn.h>

#include <cstdint>
#include <cstring>

#include "fake_gpu.h"

using stepcast::fake::enqueue;

namespace {

cudaStream_t cudnn_stream = nullptr;  // of the only handle

}  // namespace

extern "C" {

// ---------------------------------------------------------------- cublasLt
cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  static int one = 0;
  *handle = reinterpret_cast<cublasLtHandle_t>(&one);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                                              cublasLtMatmulPreference_t, int,
                                              cublasLtMatmulHeuristicResult_t found[], int* count) {
  std::memset(&found[0], 0, sizeof found[0]);
  found[0].state = CUBLAS_STATUS_SUCCESS;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t description, const void*,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t, const void*, const void*,
                              cublasLtMatrixLayout_t, void* d, cublasLtMatrixLayout_t d_layout,
                              const cublasLtMatmulAlgo_t*, void*, std::size_t,
                              cudaStream_t stream) {
  const auto aligned = [](const void* p) {
    return p != nullptr && reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
  };
  if (!aligned(a) || !aligned(b) || !aligned(d)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const auto size = [](cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which) {
    std::uint64_t value = 0;
    std::size_t written = 0;
    cublasLtMatrixLayoutGetAttribute(layout, which, &value, sizeof value, &written);
    return static_cast<double>(value);
  };
  std::int32_t transposed = 0;
  std::size_t written = 0;
  cublasLtMatmulDescGetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transposed,
                                 sizeof transposed, &written);
  const double m = size(d_layout, CUBLASLT_MATRIX_LAYOUT_ROWS);
  const double n = size(d_layout, CUBLASLT_MATRIX_LAYOUT_COLS);
  const double k = size(a_layout, transposed == CUBLAS_OP_T ? CUBLASLT_MATRIX_LAYOUT_ROWS
                                                            : CUBLASLT_MATRIX_LAYOUT_COLS);
  std::int32_t batch = 1;
  cublasLtMatrixLayoutGetAttribute(d_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                   sizeof batch, &written);
  enqueue(stream, stepcast::fake::product_time(m, n, k, batch));
  return CUBLAS_STATUS_SUCCESS;
}

// ---------------------------------------------------------------- cuDNN
cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  static int one = 0;
  *handle = reinterpret_cast<cudnnHandle_t>(&one);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t stream) {
  cudnn_stream = stream;
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t,
                                           cudnnBackendDescriptor_t* made) {
  *made = reinterpret_cast<cudnnBackendDescriptor_t>(new int(0));
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t gone) {
  delete reinterpret_cast<int*>(gone);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t, std::int64_t, const void*) {
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,
                                       cudnnBackendAttributeType_t type, std::int64_t,
                                       std::int64_t* count, void* values) {
  *count = 1;  // one engine configuration; one number
  if (type == CUDNN_TYPE_INT64 && values != nullptr) {
    *static_cast<std::int64_t*>(values) = 1 << 20;  // bytes of workspace
  }
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t,
                                  cudnnBackendDescriptor_t) {
  enqueue(cudnn_stream, 100e-6);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
