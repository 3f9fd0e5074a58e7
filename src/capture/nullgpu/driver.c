// libcuda.so.1: what PyTorch asks of the driver itself, which is contexts, modules and the mappings of expandable segments.
// Its memory is the runtime's, which is preloaded.
#include "nullgpu.h"

#include <stdint.h>
#include <stdlib.h>

enum { kOutOfMemory = 2 };  // CUDA_ERROR_OUT_OF_MEMORY
enum { kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76, kMultiprocessors = 16 };  // CU_DEVICE_ATTRIBUTE_...

static int make(void** out) {
  *out = calloc(1, 64);
  return 0;
}
static int value(int* out, int number) {
  *out = number;
  return 0;
}

EXPORT int nullgpu_nothing(void) { return 0; }
EXPORT int cuInit(unsigned flags) { return 0; }
EXPORT int cuDriverGetVersion(int* out) { return value(out, 13020); }
EXPORT int cuDeviceGet(int* out, int device) { return value(out, device); }
EXPORT int cuDeviceGetCount(int* out) { return value(out, 8); }
EXPORT int cuDeviceGetAttribute(int* out, int attribute, int device) {
  return value(out, attribute == kComputeCapabilityMajor ? 9 : attribute == kComputeCapabilityMinor ? 0 : attribute == kMultiprocessors ? 132 : 1);
}
EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  *flags = 0;
  return value(active, 1);
}
EXPORT int cuDevicePrimaryCtxRetain(void** out, int device) {
  static int context;
  *out = &context;
  return 0;
}
EXPORT int cuCtxGetCurrent(void** out) { return cuDevicePrimaryCtxRetain(out, 0); }
EXPORT int cuCtxSetCurrent(void* context) { return 0; }
EXPORT int cuGetErrorString(int error, const char** out) {
  *out = "null GPU";
  return 0;
}

// A handle of physical memory is its size.
EXPORT int cuMemGetAllocationGranularity(size_t* out, const void* properties, int option) {
  *out = (size_t)2 << 20;
  return 0;
}
EXPORT int cuMemAddressReserve(uint64_t* out, size_t bytes, size_t alignment, uint64_t at, uint64_t flags) {
  *out = (uint64_t)nullgpu_addresses(bytes);
  return 0;
}
EXPORT int cuMemCreate(uint64_t* out, size_t bytes, const void* properties, uint64_t flags) {
  if (!nullgpu_take((long)bytes)) return kOutOfMemory;
  *out = bytes;
  return 0;
}
EXPORT int cuMemRelease(uint64_t handle) {
  nullgpu_take(-(long)handle);
  return 0;
}

EXPORT int cuModuleLoad(void** out, const char* file) { return make(out); }
EXPORT int cuModuleLoadData(void** out, const void* image) { return make(out); }
EXPORT int cuModuleLoadDataEx(void** out, const void* image, unsigned count, void* options, void** values) { return make(out); }
EXPORT int cuModuleGetFunction(void** out, void* module, const char* name) { return make(out); }
EXPORT int cuLibraryLoadData(void** out, const void* code, void* options, void** values, unsigned count, void* more, void** others,
                             unsigned number) {
  return make(out);
}
EXPORT int cuLibraryGetKernel(void** out, void* library, const char* name) { return make(out); }
EXPORT int cuKernelGetFunction(void** out, void* kernel) { return make(out); }
EXPORT int cuLaunchKernel(void* kernel, unsigned x, unsigned y, unsigned z, unsigned i, unsigned j, unsigned k, unsigned shared,
                          void* stream, void** arguments, void** more) {
  return nullgpu_launch(stream);
}
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, void* kernel, int threads, size_t shared) { return value(out, 2); }
