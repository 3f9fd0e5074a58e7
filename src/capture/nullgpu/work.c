// Streams, events, kernels and errors: whatever is launched has been done at once, but that collectives of a stream of their own run
// on for those who ask. Callbacks of the host run.
#define _GNU_SOURCE
#include "log.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

// What handles of streams and events point to. A process group asks whether a collective's end event has happened, and where it has,
// its wait() makes no stream wait (torch 2.15, c10d/nccl2/WorkNCCL.cpp). On a GPU it has not, since a collective is waited for soon
// after it was issued. So the first event behind a collective is pending until someone waits for it, or for kPending: a watchdog that
// asks until it has happened is not to take it for a hang. The process group before that one never asks in wait(), and its watchdog would
// keep what works hold: there all events have happened.
typedef struct {
  int collective;  // it was the last thing issued
} Stream;
typedef struct {
  int64_t pending_since;  // 0: has happened
} Event;
static int pends;
EXPORT void nullgpu_pending(int on) { pends = on; }
static const int64_t kPending = 10000000000;  // ns
static const uintptr_t kNamedStreams = 16;     // the default streams' handles are small numbers

static int64_t clock_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000L + now.tv_nsec;
}
static void issued(void* stream, int collective) {
  if ((uintptr_t)stream >= kNamedStreams) ((Stream*)stream)->collective = collective;
}
void stream_issued_collective(void* stream) { issued(stream, 1); }

static atomic_long launches;
static cudaError_t nothing_to_do(cudaStream_t stream) {
  launches++;
  issued(stream, 0);
  log_entry(kLogKernel, stream, 0, 0);
  return cudaSuccess;
}
EXPORT long nullgpu_launches(void) { return launches; }
// Of a library that launches its own kernels.
EXPORT int nullgpu_launch(void* stream) { return nothing_to_do(stream); }

EXPORT cudaError_t cudaLaunchKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return nothing_to_do(stream);
}
EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* launch, const void* kernel, void** arguments) {
  return nothing_to_do(launch->stream);
}
EXPORT cudaError_t cudaLaunchCooperativeKernel(const void* kernel, dim3 grid, dim3 block, void** arguments, size_t shared,
                                               cudaStream_t stream) {
  return nothing_to_do(stream);
}
EXPORT cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments, size_t shared, cudaStream_t stream) {
  return nothing_to_do(stream);
}

// What nvcc writes around `kernel<<<...>>>` and into the start of every object file.
EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* symbol) {
  *out = (cudaKernel_t)symbol;
  return cudaSuccess;
}
static _Thread_local struct CUstream_st* pushed;
EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st* stream) {
  pushed = stream;
  return 0;
}
EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  grid->x = grid->y = grid->z = block->x = block->y = block->z = 1;
  *shared = 0;
  *(void**)stream = pushed;
  return cudaSuccess;
}
EXPORT void** __cudaRegisterFatBinary(void* image) {
  static void* handle[8];
  return handle;
}
EXPORT void __cudaRegisterFatBinaryEnd(void** handle) {}
EXPORT void __cudaUnregisterFatBinary(void** handle) {}
EXPORT void __cudaRegisterFunction(void) {}
EXPORT void __cudaRegisterVar(void) {}

EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* out, const void* kernel) {
  *out = (struct cudaFuncAttributes){.numRegs = 64, .maxThreadsPerBlock = 1024, .maxDynamicSharedSizeBytes = 48 << 10,
                                     .binaryVersion = 90, .ptxVersion = 90};
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* out, const void* kernel, int threads, size_t shared,
                                                                          unsigned flags) {
  *out = 2;
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* out, const void* kernel, int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(out, kernel, threads, shared, 0);
}

// Zeroed, which is an idle stream and an event that has happened. Other handles only need to differ from each other.
static cudaError_t make(void** out) {
  *out = calloc(1, 64);
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamCreate(cudaStream_t* out) { return make((void**)out); }
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) { return make((void**)out); }
EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* out, unsigned flags, int priority) { return make((void**)out); }
EXPORT cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* out) {
  *out = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus* out) {
  *out = cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus* out, unsigned long long* id,
                                            cudaGraph_t* graph, const cudaGraphNode_t** dependencies,
#if CUDART_VERSION >= 13000
                                            const cudaGraphEdgeData** edges,
#endif
                                            size_t* count) {
  if (id != NULL) *id = 0;
  return cudaStreamIsCapturing(stream, out);
}
EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  log_entry(kLogWait, stream, (uint64_t)event, 0);
  if (event != NULL) ((Event*)event)->pending_since = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  log_entry(kLogSyncStream, stream, 0, 0);
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceSynchronize(void) {
  log_entry(kLogSyncDevice, NULL, 0, 0);
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  log_entry(kLogSyncEvent, NULL, (uint64_t)event, 0);
  ((Event*)event)->pending_since = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  log_entry(kLogRecord, stream, (uint64_t)event, 0);
  const int behind = pends && (uintptr_t)stream >= kNamedStreams && ((Stream*)stream)->collective;
  ((Event*)event)->pending_since = behind ? clock_now() : 0;
  issued(stream, 0);
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  const int64_t since = ((Event*)event)->pending_since;
  return since != 0 && clock_now() - since < kPending ? cudaErrorNotReady : cudaSuccess;
}
EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) { return cudaEventRecord(event, stream); }
EXPORT cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t call, void* argument) {
  call(argument);
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t call, void* argument, unsigned flags) {
  call(stream, cudaSuccess, argument);
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventCreate(cudaEvent_t* out) { return make((void**)out); }
EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) { return make((void**)out); }
EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = 1;
  return cudaSuccess;
}

// Only allocation ever fails, and PyTorch reads that from the call's own result.
EXPORT cudaError_t cudaGetLastError(void) { return cudaSuccess; }
EXPORT cudaError_t cudaPeekAtLastError(void) { return cudaSuccess; }
EXPORT const char* cudaGetErrorString(cudaError_t error) { return error == cudaErrorMemoryAllocation ? "out of memory" : "null GPU"; }
EXPORT const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "nullgpu";
}

// PyTorch finds the driver's functions here. One that the null driver lacks succeeds and does nothing.
EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** out, unsigned version, unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult* result) {
  static void* driver;
  if (driver == NULL) driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  *out = driver != NULL ? dlsym(driver, name) : NULL;
  if (*out == NULL && driver != NULL) *out = dlsym(driver, "nullgpu_nothing");
  if (result != NULL) *result = *out != NULL ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
#if CUDART_VERSION < 13000
EXPORT cudaError_t cudaGetDriverEntryPoint(const char* name, void** out, unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(name, out, 0, flags, result);
}
#endif
