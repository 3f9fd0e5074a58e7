// libcuda.so.1: what PyTorch asks of the driver itself, which is contexts, modules and the mappings of expandable segments.
// Its memory is the runtime's, which is preloaded.
#include "nullgpu.h"

#include <stdint.h>
#include <stdlib.h>

enum { kOutOfMemory = 2 };  // CUDA_ERROR_OUT_OF_MEMORY
// CU_DEVICE_ATTRIBUTE_... that PyTorch and Triton ask for, and the answers of an H100 and a B200, which are alike but for two
// (CUDA C++ Programming Guide, technical specifications by compute capability). Any other is 1.
static int attribute_of(int attribute) {
  enum { kThreadsOfBlock = 1, kSharedMemoryOfBlock = 8, kWarp = 10, kRegistersOfBlock = 12, kMultiprocessors = 16 };
  enum { kThreads = 39, kComputeCapabilityMajor = 75, kComputeCapabilityMinor = 76, kSharedMemory = 81, kRegisters = 82 };
  enum { kSharedMemoryOptIn = 97 };
  switch (attribute) {
    case kThreadsOfBlock: return 1024;
    case kSharedMemoryOfBlock: return 48 << 10;
    case kWarp: return 32;
    case kRegistersOfBlock: return 65536;
    case kMultiprocessors: return nullgpu_multiprocessors();
    case kThreads: return 2048;
    case kComputeCapabilityMajor: return nullgpu_capability();
    case kComputeCapabilityMinor: return 0;
    case kSharedMemory: return 228 << 10;
    case kRegisters: return 65536;
    case kSharedMemoryOptIn: return 227 << 10;
    default: return 1;
  }
}

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
EXPORT int cuDeviceGetAttribute(int* out, int attribute, int device) { return value(out, attribute_of(attribute)); }
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
EXPORT int cuCtxGetDevice(int* out) { return value(out, 0); }
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
EXPORT int cuLaunchCooperativeKernel(void* kernel, unsigned x, unsigned y, unsigned z, unsigned i, unsigned j, unsigned k,
                                     unsigned shared, void* stream, void** arguments) {
  return nullgpu_launch(stream);
}
// CUlaunchConfig up to what is read of it.
typedef struct {
  unsigned grid[3], block[3], shared;
  void* stream;
} Launch;
EXPORT int cuLaunchKernelEx(const Launch* launch, void* kernel, void** arguments, void** more) { return nullgpu_launch(launch->stream); }
// Of a kernel that Triton or NVRTC compiled: few registers, nothing spilled.
EXPORT int cuFuncGetAttribute(int* out, int attribute, void* kernel) {
  enum { kThreadsOfBlock = 0, kRegisters = 4 };  // CU_FUNC_ATTRIBUTE_...
  return value(out, attribute == kThreadsOfBlock ? 1024 : attribute == kRegisters ? 64 : 0);
}
// Triton asks whether the device can reach what a kernel is given, and where. It can, there.
EXPORT int cuPointerGetAttribute(void* out, int attribute, uint64_t pointer) {
  *(uint64_t*)out = pointer;
  return 0;
}
EXPORT int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* out, void* kernel, int threads, size_t shared) { return value(out, 2); }
