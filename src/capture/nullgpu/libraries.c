// cuBLAS, cuBLASLt, cuDNN's handles and NVRTC: handles, and products that do nothing. Their headers are not needed. PyTorch
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

EXPORT int nvrtcCreateProgram(void** out, const char* source, const char* name, int headers, void* texts, void* names) { return make(out); }
EXPORT int nvrtcDestroyProgram(void** program) { return drop(*program); }
EXPORT int nvrtcCompileProgram(void* program, int options, void* texts) { return 0; }
EXPORT int nvrtcAddNameExpression(void* program, const char* name) { return 0; }
EXPORT int nvrtcGetLoweredName(void* program, const char* name, const char** out) {
  *out = name;
  return 0;
}
static int size(size_t* out) {
  *out = 64;
  return 0;
}
EXPORT int nvrtcGetCUBINSize(void* program, size_t* out) { return size(out); }
EXPORT int nvrtcGetPTXSize(void* program, size_t* out) { return size(out); }
EXPORT int nvrtcGetProgramLogSize(void* program, size_t* out) { return size(out); }
EXPORT int nvrtcGetCUBIN(void* program, char* out) { return 0; }
EXPORT int nvrtcGetPTX(void* program, char* out) { return 0; }
EXPORT int nvrtcGetProgramLog(void* program, char* out) {
  *out = 0;
  return 0;
}
EXPORT int nvrtcGetNumSupportedArchs(int* out) { return value(out, 1); }
EXPORT int nvrtcGetSupportedArchs(int* out) { return value(out, 90); }
EXPORT int nvrtcVersion(int* major, int* minor) { return value(major, 13) | value(minor, 2); }
