// hipBLASLt and MIOpen that compute nothing, but refuse calls that the real ones could not run:
// fake_gpu.h.
#include <hipblaslt/hipblaslt.h>
#include <miopen/miopen.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "fake_gpu.h"

using stepcast::fake::enqueue;

// ---------------------------------------------------------------- hipBLASLt
struct hipblasLtMatrixLayoutOpaque_t {
  hipDataType type;
  std::uint64_t rows = 0, cols = 0;
  std::int64_t ld = 0;
  std::int32_t batch = 1;
};
struct hipblasLtMatmulDescOpaque_t {
  std::int32_t transposed[2] = {HIPBLAS_OP_N, HIPBLAS_OP_N};
  std::int32_t mode[2] = {0, 0};
  const void* scale[2] = {nullptr, nullptr};
};
struct hipblasLtMatmulPreferenceOpaque_t {};

namespace {

bool eight_bits(const hipblasLtMatrixLayoutOpaque_t& m) {
  return m.type == HIP_R_8F_E4M3 || m.type == HIP_R_8F_E4M3_FNUZ;
}

// What an MI300X multiplies: its fp8 is FNUZ, with one scale for a tensor, and all operands match.
bool possible(const hipblasLtMatmulDescOpaque_t& d, const hipblasLtMatrixLayoutOpaque_t& a,
              const hipblasLtMatrixLayoutOpaque_t& b, const hipblasLtMatrixLayoutOpaque_t& out) {
  const bool ta = d.transposed[0] == HIPBLAS_OP_T;
  const bool tb = d.transposed[1] == HIPBLAS_OP_T;
  return a.type == b.type && a.type != HIP_R_8F_E4M3 && (ta ? a.cols : a.rows) == out.rows &&
         (tb ? b.rows : b.cols) == out.cols && (ta ? a.rows : a.cols) == (tb ? b.cols : b.rows) &&
         d.mode[0] == HIPBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F &&
         (!eight_bits(a) || (d.scale[0] != nullptr && d.scale[1] != nullptr));
}

}  // namespace

extern "C" {

hipblasStatus_t hipblasLtCreate(hipblasLtHandle_t* handle) {
  static int one = 0;
  *handle = &one;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatrixLayoutCreate(hipblasLtMatrixLayout_t* made, hipDataType type,
                                            std::uint64_t rows, std::uint64_t cols,
                                            std::int64_t ld) {
  *made = new hipblasLtMatrixLayoutOpaque_t{type, rows, cols, ld, 1};
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatrixLayoutDestroy(hipblasLtMatrixLayout_t layout) {
  delete layout;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatrixLayoutSetAttribute(hipblasLtMatrixLayout_t layout,
                                                  hipblasLtMatrixLayoutAttribute_t which,
                                                  const void* value, std::size_t size) {
  if (which == HIPBLASLT_MATRIX_LAYOUT_BATCH_COUNT) {
    std::memcpy(&layout->batch, value, size);
  }
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulDescCreate(hipblasLtMatmulDesc_t* made, hipblasComputeType_t,
                                          hipDataType) {
  *made = new hipblasLtMatmulDescOpaque_t;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulDescDestroy(hipblasLtMatmulDesc_t description) {
  delete description;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulDescSetAttribute(hipblasLtMatmulDesc_t d,
                                                hipblasLtMatmulDescAttributes_t which,
                                                const void* value, std::size_t size) {
  void* to = nullptr;
  std::size_t expected = sizeof(std::int32_t);
  switch (which) {
    case HIPBLASLT_MATMUL_DESC_TRANSA:
    case HIPBLASLT_MATMUL_DESC_TRANSB:
      to = &d->transposed[which == HIPBLASLT_MATMUL_DESC_TRANSB ? 1 : 0];
      break;
    case HIPBLASLT_MATMUL_DESC_A_SCALE_MODE:
    case HIPBLASLT_MATMUL_DESC_B_SCALE_MODE:
      to = &d->mode[which == HIPBLASLT_MATMUL_DESC_B_SCALE_MODE ? 1 : 0];
      break;
    case HIPBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    case HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      to = &d->scale[which == HIPBLASLT_MATMUL_DESC_B_SCALE_POINTER ? 1 : 0];
      expected = sizeof(void*);
      break;
  }
  if (to == nullptr || size != expected) {
    return HIPBLAS_STATUS_INVALID_VALUE;
  }
  std::memcpy(to, value, size);
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulPreferenceCreate(hipblasLtMatmulPreference_t* made) {
  *made = new hipblasLtMatmulPreferenceOpaque_t;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulPreferenceDestroy(hipblasLtMatmulPreference_t preference) {
  delete preference;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulPreferenceSetAttribute(hipblasLtMatmulPreference_t,
                                                      hipblasLtMatmulPreferenceAttributes_t,
                                                      const void*, std::size_t) {
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmulAlgoGetHeuristic(
    hipblasLtHandle_t, hipblasLtMatmulDesc_t d, hipblasLtMatrixLayout_t a,
    hipblasLtMatrixLayout_t b, hipblasLtMatrixLayout_t, hipblasLtMatrixLayout_t out,
    hipblasLtMatmulPreference_t, int, hipblasLtMatmulHeuristicResult_t found[], int* count) {
  if (!possible(*d, *a, *b, *out)) {
    return HIPBLAS_STATUS_NOT_SUPPORTED;
  }
  found[0] = {};
  *count = 1;
  return HIPBLAS_STATUS_SUCCESS;
}
hipblasStatus_t hipblasLtMatmul(hipblasLtHandle_t, hipblasLtMatmulDesc_t d, const void*,
                                const void* a, hipblasLtMatrixLayout_t a_layout, const void* b,
                                hipblasLtMatrixLayout_t b_layout, const void*, const void*,
                                hipblasLtMatrixLayout_t, void* out,
                                hipblasLtMatrixLayout_t out_layout, const hipblasLtMatmulAlgo_t*,
                                void*, std::size_t, hipStream_t stream) {
  if (a == nullptr || b == nullptr || out == nullptr ||
      !possible(*d, *a_layout, *b_layout, *out_layout)) {
    return HIPBLAS_STATUS_INVALID_VALUE;
  }
  const bool ta = d->transposed[0] == HIPBLAS_OP_T;
  enqueue(stream,
          stepcast::fake::product_time(
              static_cast<double>(out_layout->rows), static_cast<double>(out_layout->cols),
              static_cast<double>(ta ? a_layout->rows : a_layout->cols), out_layout->batch));
  return HIPBLAS_STATUS_SUCCESS;
}

}  // extern "C"

// ---------------------------------------------------------------- MIOpen
struct miopenHandle {
  hipStream_t stream;
};
struct miopenMhaDescriptor {
  float scale = 0;
};
struct miopenTensorDescriptor {
  std::vector<int> dims;
};
struct miopenProblem {
  float scale;
  miopenProblemDirection_t direction;
  std::map<miopenTensorArgumentId_t, std::vector<int>> tensors;
};
struct miopenSolution {
  miopenProblem problem;
};

extern "C" {

const char* miopenGetErrorString(miopenStatus_t) { return "an error"; }
miopenStatus_t miopenGetVersion(std::size_t* major, std::size_t* minor, std::size_t* patch) {
  *major = 3;
  *minor = 4;
  *patch = 0;
  return miopenStatusSuccess;
}
miopenStatus_t miopenCreateWithStream(miopenHandle_t* made, hipStream_t stream) {
  *made = new miopenHandle{stream};
  return miopenStatusSuccess;
}
miopenStatus_t miopenDestroy(miopenHandle_t handle) {
  delete handle;
  return miopenStatusSuccess;
}
miopenStatus_t miopenCreateMhaDescriptor(miopenMhaDescriptor_t* made) {
  static miopenMhaDescriptor one;
  *made = &one;
  return miopenStatusSuccess;
}
miopenStatus_t miopenSetMhaDescriptor(miopenMhaDescriptor_t attention, float scale) {
  attention->scale = scale;
  return miopenStatusSuccess;
}
miopenStatus_t miopenCreateMhaProblem(miopenProblem_t* made, miopenMhaDescriptor_t attention,
                                      miopenProblemDirection_t direction) {
  *made = new miopenProblem{attention->scale, direction, {}};
  return miopenStatusSuccess;
}
miopenStatus_t miopenDestroyProblem(miopenProblem_t problem) {
  delete problem;
  return miopenStatusSuccess;
}
miopenStatus_t miopenCreateTensorDescriptor(miopenTensorDescriptor_t* made) {
  *made = new miopenTensorDescriptor;
  return miopenStatusSuccess;
}
miopenStatus_t miopenSetTensorDescriptor(miopenTensorDescriptor_t tensor, miopenDataType_t,
                                         int count, const int* dims, const int*) {
  tensor->dims.assign(dims, dims + count);
  return miopenStatusSuccess;
}
miopenStatus_t miopenDestroyTensorDescriptor(miopenTensorDescriptor_t tensor) {
  delete tensor;
  return miopenStatusSuccess;
}
miopenStatus_t miopenSetProblemTensorDescriptor(miopenProblem_t problem,
                                                miopenTensorArgumentId_t id,
                                                miopenTensorDescriptor_t tensor) {
  problem->tensors[id] = tensor->dims;
  return miopenStatusSuccess;
}
miopenStatus_t miopenFindSolutions(miopenHandle_t, miopenProblem_t problem, miopenFindOptions_t,
                                   miopenSolution_t* made, std::size_t* found, std::size_t) {
  // Problems that the library could not run: without the tensors of their direction, or with
  // another scale than attention's.
  const auto& t = problem->tensors;
  const bool backward = problem->direction == miopenProblemDirectionBackward;
  const std::set<miopenTensorArgumentId_t> needed =
      backward
          ? std::set{miopenTensorMhaDO, miopenTensorMhaDQ, miopenTensorMhaDK,  miopenTensorMhaDV,
                     miopenTensorMhaO,  miopenTensorMhaM,  miopenTensorMhaZInv}
          : std::set{miopenTensorMhaQ, miopenTensorMhaK, miopenTensorMhaV,
                     miopenTensorMhaO, miopenTensorMhaM, miopenTensorMhaZInv};
  const bool all = std::all_of(needed.begin(), needed.end(),
                               [&](miopenTensorArgumentId_t id) { return t.count(id) > 0; });
  *found = 0;
  if (all && std::abs(problem->scale * std::sqrt(static_cast<float>(t.at(miopenTensorMhaQ)[3])) -
                      1.0F) < 1e-6F) {
    *made = new miopenSolution{*problem};
    *found = 1;
  }
  return miopenStatusSuccess;
}
miopenStatus_t miopenGetSolutionWorkspaceSize(miopenSolution_t, std::size_t* bytes) {
  *bytes = 1 << 20;
  return miopenStatusSuccess;
}
miopenStatus_t miopenRunSolution(miopenHandle_t handle, miopenSolution_t solution,
                                 std::size_t count, const miopenTensorArgument_t* given,
                                 void* workspace, std::size_t bytes) {
  std::set<miopenTensorArgumentId_t> seen;
  bool mask = false;
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i].buffer == nullptr) {
      return miopenStatusBadParm;
    }
    mask = mask || given[i].id == miopenTensorMhaMask;
    seen.insert(given[i].id);
  }
  for (const auto& [id, dims] : solution->problem.tensors) {
    if (seen.count(id) == 0) {
      return miopenStatusBadParm;
    }
  }
  if (!mask || workspace == nullptr || bytes < (1U << 20)) {
    return miopenStatusBadParm;
  }
  enqueue(handle->stream, 100e-6);
  return miopenStatusSuccess;
}
miopenStatus_t miopenDestroySolution(miopenSolution_t solution) {
  delete solution;
  return miopenStatusSuccess;
}

// ---------------------------------------------------------------- RCCL's texts
const char* ncclGetErrorString(ncclResult_t) { return "an error"; }
ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}

}  // extern "C"
