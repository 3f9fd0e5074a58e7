// Replaces the CUDA driver in the test of cuDNN's graphs: cuDNN compiles its kernels with NVRTC,
// which needs no GPU, and then asks the driver to load them. Here loading succeeds and is recorded;
// every other function reports that there is no device. It is linked under the driver's name, so
// that cuDNN finds this library loaded.
#include <string>

namespace {

constexpr int kSuccess = 0;     // CUDA_SUCCESS
constexpr int kNoDevice = 100;  // CUDA_ERROR_NO_DEVICE
char object;                    // every handle points to this
std::string loaded;

}  // namespace

extern "C" {

// Returns the name of the kernel loaded last and forgets it.
const char* stepcast_take_loaded_kernel() {
  static std::string taken;
  taken.swap(loaded);
  loaded.clear();
  return taken.c_str();
}

int cuLibraryLoadData(void** library) {
  *library = &object;
  return kSuccess;
}
int cuLibraryGetKernel(void** kernel, void*, const char* name) {
  loaded = name;
  *kernel = &object;
  return kSuccess;
}
int cuLibraryUnload(void*) { return kSuccess; }
int cuKernelGetAttribute(int* value) {
  *value = 0;
  return kSuccess;
}
int cuKernelSetAttribute() { return kSuccess; }

#define STEPCAST_ABSENT(name) \
  int name() { return kNoDevice; }
STEPCAST_ABSENT(cuCtxGetCurrent)
STEPCAST_ABSENT(cuCtxGetDevice)
STEPCAST_ABSENT(cuCtxGetLimit)
STEPCAST_ABSENT(cuCtxPopCurrent)
STEPCAST_ABSENT(cuCtxPushCurrent)
STEPCAST_ABSENT(cuDeviceGet)
STEPCAST_ABSENT(cuDeviceGetAttribute)
STEPCAST_ABSENT(cuDeviceGetCount)
STEPCAST_ABSENT(cuDevicePrimaryCtxRelease)
STEPCAST_ABSENT(cuDevicePrimaryCtxReset)
STEPCAST_ABSENT(cuDevicePrimaryCtxRetain)
STEPCAST_ABSENT(cuDriverGetVersion)
STEPCAST_ABSENT(cuFuncGetAttribute)
STEPCAST_ABSENT(cuFuncSetAttribute)
STEPCAST_ABSENT(cuGetErrorName)
STEPCAST_ABSENT(cuGetErrorString)
STEPCAST_ABSENT(cuInit)
STEPCAST_ABSENT(cuLaunchCooperativeKernel)
STEPCAST_ABSENT(cuLaunchKernel)
STEPCAST_ABSENT(cuLaunchKernelEx)
STEPCAST_ABSENT(cuLibraryLoadFromFile)
STEPCAST_ABSENT(cuLinkAddData)
STEPCAST_ABSENT(cuLinkAddData_v2)
STEPCAST_ABSENT(cuLinkAddFile_v2)
STEPCAST_ABSENT(cuLinkComplete)
STEPCAST_ABSENT(cuLinkCreate)
STEPCAST_ABSENT(cuLinkCreate_v2)
STEPCAST_ABSENT(cuLinkDestroy)
STEPCAST_ABSENT(cuMemcpyDtoH_v2)
STEPCAST_ABSENT(cuModuleGetFunction)
STEPCAST_ABSENT(cuModuleGetGlobal_v2)
STEPCAST_ABSENT(cuModuleLoadData)
STEPCAST_ABSENT(cuModuleLoadDataEx)
STEPCAST_ABSENT(cuModuleLoadFatBinary)
STEPCAST_ABSENT(cuModuleUnload)
STEPCAST_ABSENT(cuOccupancyMaxActiveBlocksPerMultiprocessor)
STEPCAST_ABSENT(cuOccupancyMaxPotentialClusterSize)
STEPCAST_ABSENT(cuStreamGetCtx)
STEPCAST_ABSENT(cuStreamSynchronize)
STEPCAST_ABSENT(cuTensorMapEncodeTiled)
#undef STEPCAST_ABSENT
}
