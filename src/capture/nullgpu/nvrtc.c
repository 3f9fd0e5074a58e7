// NVRTC, which compiles nothing here. It is a library of its own, since PyTorch opens NVRTC by its name.
#include "nullgpu.h"

#include <stdlib.h>

static int value(int* out, int number) {
  *out = number;
  return 0;
}
static int size(size_t* out) {
  *out = 64;
  return 0;
}

EXPORT int nvrtcCreateProgram(void** out, const char* source, const char* name, int headers, void* texts, void* names) {
  *out = calloc(1, 64);
  return 0;
}
EXPORT int nvrtcDestroyProgram(void** program) {
  free(*program);
  return 0;
}
EXPORT int nvrtcCompileProgram(void* program, int options, void* texts) { return 0; }
EXPORT int nvrtcAddNameExpression(void* program, const char* name) { return 0; }
EXPORT int nvrtcGetLoweredName(void* program, const char* name, const char** out) {
  *out = name;
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
