#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "fake_gpu.h"

using stepcast::fake::enqueue;
using stepcast::fake::kBandwidth;
using stepcast::fake::kMoved;

namespace {

constexpr double kKernel = 8e-6;  // s, for a kernel of unknown work
constexpr double kLink = 50e9;    // bytes/s, host to device
#if defined(__HIP_PLATFORM_AMD__)
constexpr std::size_t kMemory = 206141652992;  // of an MI300X
#else
constexpr std::size_t kMemory = 150754820096;  // of an H200
#endif

double host_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct FakeGraph {
  double seconds = 0;
};

std::mutex lock;
std::map<void*, std::size_t> allocated;
std::size_t in_use = 0;
// Host stub -> name on the device. Kernels register before static objects of other files are made.
std::map<const void*, std::string>& kernels() {
  static std::map<const void*, std::string> all;
  return all;
}
thread_local FakeGraph* capturing = nullptr;
thread_local int current_gpu = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local struct {
  dim3 grid, block;
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
} configuration;

cudaError_t result(cudaError_t error) {
  if (error != cudaSuccess) {
    last_error = error;
  }
  return error;
}

int gpus() {
  const char* text = std::getenv("FAKE_GPUS");
  return text == nullptr ? 1 : std::atoi(text);
}

}  // namespace

namespace {

CUstream_st& stream_of(cudaStream_t stream) {
  static CUstream_st null_stream;
  return stream == nullptr ? null_stream : *stream;
}

void wait_until(double time) {
  while (host_now() < time) {
    std::this_thread::yield();
  }
}

double end_of(cudaStream_t stream) {
  const std::lock_guard guard(lock);
  return stream_of(stream).time;
}

}  // namespace

namespace stepcast::fake {

void enqueue(cudaStream_t handle, double seconds) {
  if (capturing != nullptr) {
    capturing->seconds += seconds;
    return;
  }
  const std::lock_guard guard(lock);
  CUstream_st& stream = stream_of(handle);
  stream.time = std::max(stream.time, host_now()) + seconds;
}

double product_time(double m, double n, double k, double batch) {
  return 3e-6 + batch * std::max(2 * m * n * k / kFlops, 2 * (m * n + n * k + m * k) / kBandwidth);
}

}  // namespace stepcast::fake

namespace {

#if defined(__HIP_PLATFORM_AMD__)
constexpr double kClock = 100e6;  // Hz, of kernels that wait: clock.cuh
#else
constexpr double kClock = 1e9;
#endif

cudaError_t launched(const void* kernel, dim3 grid, dim3 block, void** arguments,
                     cudaStream_t stream) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x * block.y * block.z == 0 ||
      block.x * block.y * block.z > 1024 || grid.y > 65535 || grid.z > 65535) {
    return result(cudaErrorInvalidConfiguration);
  }
  std::string name;
  {
    const std::lock_guard guard(lock);
    const auto found = kernels().find(kernel);
    if (found == kernels().end()) {
      return result(cudaErrorInvalidDeviceFunction);
    }
    name = found->second;
  }
  const bool waits =
      name.find("hold_kernel") != std::string::npos || name.find("wait_for") != std::string::npos;
  const double seconds =
      waits ? static_cast<double>(*static_cast<unsigned long long*>(arguments[0])) / kClock
            : kKernel;
  enqueue(stream, seconds);
  return cudaSuccess;
}

}  // namespace

extern "C" {

#if defined(__HIP_PLATFORM_AMD__)
// ---------------------------------------------------------------- what hipcc's code calls
void** __hipRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __hipUnregisterFatBinary(void**) {}
void __hipRegisterFunction(void**, const char* stub, char*, const char* name, int, void*, void*,
                           void*, void*, int*) {
  const std::lock_guard guard(lock);
  kernels()[stub] = name;
}
void __hipRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
hipError_t __hipPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                      hipStream_t stream) {
  configuration = {grid, block, shared, stream};
  return hipSuccess;
}
hipError_t __hipPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared,
                                     hipStream_t* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *stream = configuration.stream;
  return hipSuccess;
}
hipError_t hipLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, std::size_t,
                           hipStream_t stream) {
  return launched(kernel, grid, block, arguments, stream);
}

#else
// ---------------------------------------------------------------- what nvcc's code calls
void** __cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*, uint3*,
                            dim3*, dim3*, int*) {
  const std::lock_guard guard(lock);
  kernels()[stub] = name;
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                     cudaStream_t stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments,
                             std::size_t, cudaStream_t stream) {
  return launched(kernel, grid, block, arguments, stream);
}

// CUDA 13 launches by a handle, CUDA 12 by the stub's address.
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                               std::size_t shared, cudaStream_t stream) {
  return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}
#endif

// ---------------------------------------------------------------- devices
cudaError_t cudaGetDeviceCount(int* count) {
  *count = gpus();
  return gpus() > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = 13000;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int gpu) {
  if (gpu < 0 || gpu >= gpus()) {
    return result(cudaErrorInvalidDevice);
  }
  current_gpu = gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* gpu) {
  *gpu = current_gpu;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  std::memset(p, 0, sizeof *p);
#if defined(__HIP_PLATFORM_AMD__)
  std::strcpy(p->name, "AMD Instinct MI300X");
  std::strcpy(p->gcnArchName, "gfx942:sramecc+:xnack-");
  p->major = 9;
  p->minor = 4;
  p->multiProcessorCount = 304;
  p->l2CacheSize = 4 << 20;
#else
  std::strcpy(p->name, "NVIDIA H200");
  p->major = 9;
  p->multiProcessorCount = 132;
  p->l2CacheSize = 50 << 20;
#endif
  p->totalGlobalMem = kMemory;
  p->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) {
  *value = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char*, int, int) { return result(cudaErrorNotSupported); }
// Every stream has already been waited for.
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}
cudaError_t cudaPeekAtLastError() { return last_error; }
#if !defined(__HIP_PLATFORM_AMD__)
cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) { return cudaSuccess; }
#endif

// ---------------------------------------------------------------- memory
cudaError_t cudaMalloc(void** data, std::size_t bytes) {
  const std::lock_guard guard(lock);
  if (in_use + bytes > kMemory * static_cast<std::size_t>(std::max(gpus(), 1))) {
    return result(cudaErrorMemoryAllocation);
  }
  void* found = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (found == MAP_FAILED) {
    return result(cudaErrorMemoryAllocation);
  }
  *data = found;
  allocated[found] = bytes;
  in_use += bytes;
  return cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  const std::lock_guard guard(lock);
  const auto found = allocated.find(data);
  if (found == allocated.end()) {
    return result(data == nullptr ? cudaSuccess : cudaErrorInvalidValue);
  }
  munmap(data, found->second);
  in_use -= found->second;
  allocated.erase(found);
  return cudaSuccess;
}
#if defined(__HIP_PLATFORM_AMD__)
hipError_t hipHostMalloc(void** data, std::size_t bytes, unsigned) {
#else
cudaError_t cudaMallocHost(void** data, std::size_t bytes) {
#endif
  *data = std::malloc(bytes);
  return cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard guard(lock);
  *total = kMemory;
  *free = kMemory - std::min(in_use, kMemory);
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (bytes <= kMoved) {
    std::memcpy(to, from, bytes);
  }
  enqueue(stream,
          static_cast<double>(bytes) / (kind == cudaMemcpyDeviceToDevice ? kBandwidth / 2 : kLink) +
              2e-6);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return cudaMemcpyAsync(to, from, bytes, kind, nullptr);
}
cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes <= kMoved) {
    std::memset(data, value, bytes);
  }
  enqueue(stream, static_cast<double>(bytes) / kBandwidth + 2e-6);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* data, int value, std::size_t bytes) {
  return cudaMemsetAsync(data, value, bytes, nullptr);
}

// ---------------------------------------------------------------- streams, events, graphs
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new CUstream_st;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  wait_until(end_of(stream));
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return host_now() >= end_of(stream) ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (capturing == nullptr) {
    const std::lock_guard guard(lock);
    stream_of(stream).time = std::max(stream_of(stream).time, event->time);
  }
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  enqueue(handle, 0);
  if (capturing == nullptr) {
    const std::lock_guard guard(lock);
    event->time = stream_of(handle).time;
  }
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  wait_until(event->time);
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return host_now() >= event->time ? cudaSuccess : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = static_cast<float>((to->time - from->time) * 1e3);
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  capturing = new FakeGraph;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = reinterpret_cast<cudaGraph_t>(capturing);
  capturing = nullptr;
  return cudaSuccess;
}
#if defined(__HIP_PLATFORM_AMD__)
hipError_t hipGraphInstantiateWithFlags(hipGraphExec_t* executable, hipGraph_t graph,
                                        unsigned long long) {
#else
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
#endif
  *executable =
      reinterpret_cast<cudaGraphExec_t>(new FakeGraph(*reinterpret_cast<FakeGraph*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<FakeGraph*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) {
  delete reinterpret_cast<FakeGraph*>(graph);
  return cudaSuccess;
}
#if !defined(__HIP_PLATFORM_AMD__)
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) { return cudaSuccess; }
#elif HIP_VERSION >= 50300000
hipError_t hipGraphUpload(hipGraphExec_t, hipStream_t) { return hipSuccess; }
#endif
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  enqueue(stream, reinterpret_cast<FakeGraph*>(graph)->seconds);
  return cudaSuccess;
}

}  // extern "C"
