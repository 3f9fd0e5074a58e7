// The part of cublasLt that calibration/cuda uses, under its names, on hipBLASLt 1.0 (ROCm 7) or
// later, whose interface mirrors it and has scale modes. What differs is in gemm_library.cpp.
#pragma once

#include <cuda_runtime.h>
#include <hipblaslt/hipblaslt.h>

#define CUBLASLT_MATMUL_DESC_A_SCALE_MODE HIPBLASLT_MATMUL_DESC_A_SCALE_MODE
#define CUBLASLT_MATMUL_DESC_A_SCALE_POINTER HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER
#define CUBLASLT_MATMUL_DESC_B_SCALE_MODE HIPBLASLT_MATMUL_DESC_B_SCALE_MODE
#define CUBLASLT_MATMUL_DESC_B_SCALE_POINTER HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER
#define CUBLASLT_MATMUL_DESC_TRANSA HIPBLASLT_MATMUL_DESC_TRANSA
#define CUBLASLT_MATMUL_DESC_TRANSB HIPBLASLT_MATMUL_DESC_TRANSB
#define CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F HIPBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F
#define CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F HIPBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F
#define CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F HIPBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F
#define CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3 HIPBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3
#define CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0 HIPBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0
#define CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES HIPBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES
#define CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT
#define CUBLASLT_MATRIX_LAYOUT_COLS HIPBLASLT_MATRIX_LAYOUT_COLS
#define CUBLASLT_MATRIX_LAYOUT_LD HIPBLASLT_MATRIX_LAYOUT_LD
#define CUBLASLT_MATRIX_LAYOUT_ROWS HIPBLASLT_MATRIX_LAYOUT_ROWS
#define CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET HIPBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET
#define CUBLASLT_MATRIX_LAYOUT_TYPE HIPBLASLT_MATRIX_LAYOUT_TYPE
#define CUBLAS_COMPUTE_32F HIPBLAS_COMPUTE_32F
#define CUBLAS_COMPUTE_32F_FAST_TF32 HIPBLAS_COMPUTE_32F_FAST_TF32
#define CUBLAS_OP_N HIPBLAS_OP_N
#define CUBLAS_OP_T HIPBLAS_OP_T
#define CUBLAS_STATUS_ALLOC_FAILED HIPBLAS_STATUS_ALLOC_FAILED
#define CUBLAS_STATUS_ARCH_MISMATCH HIPBLAS_STATUS_ARCH_MISMATCH
#define CUBLAS_STATUS_EXECUTION_FAILED HIPBLAS_STATUS_EXECUTION_FAILED
#define CUBLAS_STATUS_INVALID_VALUE HIPBLAS_STATUS_INVALID_VALUE
#define CUBLAS_STATUS_NOT_SUPPORTED HIPBLAS_STATUS_NOT_SUPPORTED
#define CUBLAS_STATUS_SUCCESS HIPBLAS_STATUS_SUCCESS
#define CUDA_R_16BF HIP_R_16BF
#define CUDA_R_16F HIP_R_16F
#define CUDA_R_32F HIP_R_32F
#define CUDA_R_8I HIP_R_8I
#define cublasComputeType_t hipblasComputeType_t
#define cublasLtCreate hipblasLtCreate
#define cublasLtHandle_t hipblasLtHandle_t
#define cublasLtMatmul hipblasLtMatmul
#define cublasLtMatmulAlgoGetHeuristic hipblasLtMatmulAlgoGetHeuristic
#define cublasLtMatmulAlgo_t hipblasLtMatmulAlgo_t
#define cublasLtMatmulDescAttributes_t hipblasLtMatmulDescAttributes_t
#define cublasLtMatmulDescCreate hipblasLtMatmulDescCreate
#define cublasLtMatmulDescDestroy hipblasLtMatmulDescDestroy
#define cublasLtMatmulDescGetAttribute hipblasLtMatmulDescGetAttribute
#define cublasLtMatmulDescSetAttribute hipblasLtMatmulDescSetAttribute
#define cublasLtMatmulDesc_t hipblasLtMatmulDesc_t
#define cublasLtMatmulHeuristicResult_t hipblasLtMatmulHeuristicResult_t
#define cublasLtMatmulMatrixScale_t hipblasLtMatmulMatrixScale_t
#define cublasLtMatmulPreferenceCreate hipblasLtMatmulPreferenceCreate
#define cublasLtMatmulPreferenceDestroy hipblasLtMatmulPreferenceDestroy
#define cublasLtMatmulPreferenceSetAttribute hipblasLtMatmulPreferenceSetAttribute
#define cublasLtMatmulPreference_t hipblasLtMatmulPreference_t
#define cublasLtMatrixLayoutCreate hipblasLtMatrixLayoutCreate
#define cublasLtMatrixLayoutDestroy hipblasLtMatrixLayoutDestroy
#define cublasLtMatrixLayoutGetAttribute hipblasLtMatrixLayoutGetAttribute
#define cublasLtMatrixLayoutSetAttribute hipblasLtMatrixLayoutSetAttribute
#define cublasLtMatrixLayout_t hipblasLtMatrixLayout_t
#define cublasStatus_t hipblasStatus_t

inline const char* cublasLtGetStatusString(hipblasStatus_t status) {
  switch (status) {
    case HIPBLAS_STATUS_SUCCESS:
      return "success";
    case HIPBLAS_STATUS_NOT_INITIALIZED:
      return "not initialised";
    case HIPBLAS_STATUS_ALLOC_FAILED:
      return "out of memory";
    case HIPBLAS_STATUS_INVALID_VALUE:
      return "invalid value";
    case HIPBLAS_STATUS_EXECUTION_FAILED:
      return "execution failed";
    case HIPBLAS_STATUS_NOT_SUPPORTED:
      return "not supported";
    case HIPBLAS_STATUS_ARCH_MISMATCH:
      return "architecture mismatch";
    default:
      return "internal error of hipBLASLt";
  }
}
