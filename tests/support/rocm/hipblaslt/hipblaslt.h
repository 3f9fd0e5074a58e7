// What calibration/ uses of hipBLASLt 1.1: ../README.md.
#pragma once

#include <hip/hip_runtime_api.h>
#include <hip/library_types.h>

#include <cstddef>
#include <cstdint>

#if HIP_VERSION < 60200000  // types that hip/library_types.h has later
#define HIP_R_8I static_cast<hipDataType>(3)
#define HIP_R_16BF static_cast<hipDataType>(14)
#define HIP_R_8F_E4M3 static_cast<hipDataType>(28)
#define HIP_R_8F_E4M3_FNUZ static_cast<hipDataType>(1000)
#endif

enum hipblasStatus_t {
  HIPBLAS_STATUS_SUCCESS = 0,
  HIPBLAS_STATUS_NOT_INITIALIZED = 1,
  HIPBLAS_STATUS_ALLOC_FAILED = 2,
  HIPBLAS_STATUS_INVALID_VALUE = 3,
  HIPBLAS_STATUS_EXECUTION_FAILED = 5,
  HIPBLAS_STATUS_NOT_SUPPORTED = 7,
  HIPBLAS_STATUS_ARCH_MISMATCH = 8
};
enum hipblasOperation_t { HIPBLAS_OP_N = 111, HIPBLAS_OP_T = 112 };
enum hipblasComputeType_t { HIPBLAS_COMPUTE_32F = 2, HIPBLAS_COMPUTE_32F_FAST_TF32 = 6 };
enum hipblasLtMatmulMatrixScale_t {
  HIPBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F = 0,
  HIPBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 = 1,
  HIPBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 = 2,
  HIPBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F = 4,
  HIPBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F = 5
};
enum hipblasLtMatrixLayoutAttribute_t {
  HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT = 0,
  HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET = 1
};
enum hipblasLtMatmulDescAttributes_t {
  HIPBLASLT_MATMUL_DESC_TRANSA = 0,
  HIPBLASLT_MATMUL_DESC_TRANSB = 1,
  HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER = 5,
  HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER = 6,
  HIPBLASLT_MATMUL_DESC_A_SCALE_MODE = 31,
  HIPBLASLT_MATMUL_DESC_B_SCALE_MODE = 32
};
enum hipblasLtMatmulPreferenceAttributes_t { HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1 };

struct hipblasLtMatmulDescOpaque_t;
struct hipblasLtMatrixLayoutOpaque_t;
struct hipblasLtMatmulPreferenceOpaque_t;
using hipblasLtHandle_t = void*;
using hipblasLtMatmulDesc_t = hipblasLtMatmulDescOpaque_t*;
using hipblasLtMatrixLayout_t = hipblasLtMatrixLayoutOpaque_t*;
using hipblasLtMatmulPreference_t = hipblasLtMatmulPreferenceOpaque_t*;
struct hipblasLtMatmulAlgo_t {
  std::uint8_t data[16] = {};
  std::size_t max_workspace_bytes = 0;
};
struct hipblasLtMatmulHeuristicResult_t {
  hipblasLtMatmulAlgo_t algo;
  std::size_t workspaceSize = 0;
  hipblasStatus_t state = HIPBLAS_STATUS_SUCCESS;
  float wavesCount = 1.0F;
  int reserved[4] = {};
};

extern "C" {
hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t*);
hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t*, hipDataType,
                                            std::uint64_t rows, std::uint64_t cols,
                                            std::int64_t ld);
hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t);
hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(hipblasLtMatrixLayout_t,
                                                  hipblasLtMatrixLayoutAttribute_t, const void*,
                                                  std::size_t);
hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t*, hipblasComputeType_t,
                                          hipDataType);
hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t);
hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t,
                                                hipblasLtMatmulDescAttributes_t, const void*,
                                                std::size_t);
hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t*);
hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t);
hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t,
                                                      hipblasLtMatmulPreferenceAttributes_t,
                                                      const void*, std::size_t);
hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(
    hipblasLtHandle_t, hipblasLtMatmulDesc_t, hipblasLtMatrixLayout_t a, hipblasLtMatrixLayout_t b,
    hipblasLtMatrixLayout_t c, hipblasLtMatrixLayout_t d, hipblasLtMatmulPreference_t, int most,
    hipblasLtMatmulHeuristicResult_t[], int* found);
hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t, hipblasLtMatmulDesc_t, const void* alpha,
                                const void* a, hipblasLtMatrixLayout_t, const void* b,
                                hipblasLtMatrixLayout_t, const void* beta, const void* c,
                                hipblasLtMatrixLayout_t, void* d, hipblasLtMatrixLayout_t,
                                const hipblasLtMatmulAlgo_t*, void* workspace, std::size_t,
                                hipStream_t);
}
