// cuBLAS, cuBLASLt and cuDNN's handles, and products that do nothing. Their headers are not needed. PyTorch
// allocates the workspaces of cuBLAS itself.
#include "nullgpu.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int make(void** out) {
  *out = calloc(1, 256);
  return 0;
}
static int drop(void* handle) {
  free(handle);
  return 0;
}
static int value(int* out, int number) {
  *out = number;
  return 0;
}

EXPORT int cublasCreate_v2(void** out) { return make(out); }
EXPORT int cublasGetMathMode(void* handle, int* out) { return value(out, 0); }
EXPORT int cublasGetPointerMode_v2(void* handle, int* out) { return value(out, 0); }

// A handle begins with its stream. Products that have no function here are added with the calls that a PyTorch needs, as
// nullgpu_product (capture/recorder/null_gpu.py).
EXPORT int cublasSetStream_v2(void** handle, void* stream) {
  *handle = stream;
  return 0;
}
EXPORT int nullgpu_product(void** handle) { return nullgpu_launch(*handle); }
EXPORT int cublasLtMatmul(void* handle, void* product, const void* alpha, const void* a, void* a_layout, const void* b, void* b_layout,
                          const void* beta, const void* c, void* c_layout, void* d, void* d_layout, const void* algorithm,
                          void* workspace, size_t bytes, void* stream) {
  return nullgpu_launch(stream);
}

EXPORT size_t cublasLtGetVersion(void) { return 130400; }
EXPORT int cublasLtCreate(void** out) { return make(out); }
EXPORT int cublasLtMatmulDescCreate(void** out, int compute, int scale) { return make(out); }
EXPORT int cublasLtMatmulDescDestroy(void* handle) { return drop(handle); }
EXPORT int cublasLtMatrixLayoutCreate(void** out, int type, uint64_t rows, uint64_t columns, int64_t leading) { return make(out); }
EXPORT int cublasLtMatrixLayoutDestroy(void* handle) { return drop(handle); }
EXPORT int cublasLtMatmulPreferenceCreate(void** out) { return make(out); }
EXPORT int cublasLtMatmulPreferenceDestroy(void* handle) { return drop(handle); }

// cublasLtMatmulHeuristicResult_t: one algorithm, without workspace, that is ready.
typedef struct {
  uint64_t algorithm[8];
  size_t workspace;
  int state;
  float waves;
  int reserved[4];
} Heuristic;
EXPORT int cublasLtMatmulAlgoGetHeuristic(void* handle, void* product, void* a, void* b, void* c, void* d, void* preference,
                                          int requested, Heuristic* out, int* found) {
  memset(out, 0, sizeof *out);
  return value(found, 1);
}

EXPORT int cudnnCreate(void** out) { return make(out); }
EXPORT int cudnnDestroy(void* handle) { return drop(handle); }
EXPORT int cudnnSetStream(void* handle, void* stream) { return 0; }
