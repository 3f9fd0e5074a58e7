// Allocation, copies and fills. Physical memory is a counter for each device; the addresses are pages that are never touched,
// but for small copies, which carry values that the host reads back.
#define _GNU_SOURCE
#include "log.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { kDevices = 64 };
static const size_t kArena = (size_t)1 << 45;  // of 2^47; expandable segments reserve more than a whole device each
static const size_t kGranule = (size_t)2 << 20;  // what cudaMalloc and the driver's mappings align to
static const size_t kCarried = (size_t)1 << 20;  // larger copies would make pages of the arena resident

typedef struct {
  char* address;
  size_t bytes;
  int device;
} Allocation;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
typedef struct {
  char* begin;
  size_t top;
} Arena;

static Arena device_arena, pinned_arena;
static size_t used[kDevices];
static Allocation* allocations;
static size_t allocation_count, allocation_room;

// Addresses fall: on an H100 and an H200 (driver 580.159) each cudaMalloc lies below the one before it, and of equal free blocks
// PyTorch's allocator takes the lowest.
static char* bump(Arena* arena, size_t bytes) {
  if (arena->begin == NULL) {
    arena->begin = mmap(NULL, kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena->begin == MAP_FAILED) abort();
  }
  arena->top += (bytes + kGranule - 1) / kGranule * kGranule;
  if (arena->top > kArena) abort();
  return arena->begin + kArena - arena->top;
}

static int inside(const Arena* arena, const void* address) {
  return arena->begin != NULL && (const char*)address >= arena->begin && (const char*)address < arena->begin + kArena;
}

EXPORT void* nullgpu_addresses(size_t bytes) {
  pthread_mutex_lock(&mutex);
  char* address = bump(&device_arena, bytes);
  pthread_mutex_unlock(&mutex);
  return address;
}

EXPORT int nullgpu_take(long bytes) {
  pthread_mutex_lock(&mutex);
  size_t* mine = &used[current_device()];
  int fits = bytes <= 0 || *mine + (size_t)bytes <= device_capacity();
  if (fits) *mine += (size_t)bytes;
  pthread_mutex_unlock(&mutex);
  return fits;
}

size_t device_used(void) { return used[current_device()]; }

EXPORT cudaError_t cudaMalloc(void** out, size_t bytes) {
  if (!nullgpu_take((long)bytes)) return cudaErrorMemoryAllocation;
  pthread_mutex_lock(&mutex);
  *out = bump(&device_arena, bytes > 0 ? bytes : 1);
  if (allocation_count == allocation_room) {
    allocation_room = allocation_room > 0 ? 2 * allocation_room : 256;
    allocations = realloc(allocations, allocation_room * sizeof(Allocation));
  }
  allocations[allocation_count++] = (Allocation){*out, bytes, current_device()};
  pthread_mutex_unlock(&mutex);
  return cudaSuccess;
}

EXPORT cudaError_t cudaFree(void* address) {
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < allocation_count; i++) {
    Allocation a = allocations[i];
    if (a.address != address) continue;
    madvise(a.address, (a.bytes + 4095) / 4096 * 4096, MADV_DONTNEED);
    used[a.device] -= a.bytes;
    allocations[i] = allocations[--allocation_count];
    break;
  }
  pthread_mutex_unlock(&mutex);
  return cudaSuccess;
}

EXPORT cudaError_t cudaMallocAsync(void** out, size_t bytes, cudaStream_t stream) { return cudaMalloc(out, bytes); }
EXPORT cudaError_t cudaFreeAsync(void* address, cudaStream_t stream) { return cudaFree(address); }
EXPORT cudaError_t cudaMallocManaged(void** out, size_t bytes, unsigned flags) { return cudaMalloc(out, bytes); }

// bitsandbytes' paged optimizers move their states ahead of a step.
#if CUDART_VERSION >= 13000
EXPORT cudaError_t cudaMemPrefetchAsync(const void* address, size_t bytes, struct cudaMemLocation location, unsigned flags, cudaStream_t stream) {
  return cudaSuccess;
}
#else
EXPORT cudaError_t cudaMemPrefetchAsync(const void* address, size_t bytes, int device, cudaStream_t stream) { return cudaSuccess; }
#endif

EXPORT cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
  *total = device_capacity();
  *available = *total - device_used();
  return cudaSuccess;
}

// Pinned host memory is told from other host memory by its address. It is never given back: steps reuse what PyTorch caches.
EXPORT cudaError_t cudaHostAlloc(void** out, size_t bytes, unsigned flags) {
  pthread_mutex_lock(&mutex);
  *out = bump(&pinned_arena, bytes > 0 ? bytes : 1);
  pthread_mutex_unlock(&mutex);
  return cudaSuccess;
}
EXPORT cudaError_t cudaMallocHost(void** out, size_t bytes) { return cudaHostAlloc(out, bytes, 0); }
EXPORT cudaError_t cudaFreeHost(void* address) { return cudaSuccess; }

static cudaError_t carry(void* to, const void* from, size_t bytes) {
  if (bytes <= kCarried) memmove(to, from, bytes);
  return cudaSuccess;
}

// The direction that a caller leaves to the addresses.
static enum cudaMemcpyKind direction(const void* to, const void* from, enum cudaMemcpyKind stated) {
  if (stated != cudaMemcpyDefault) return stated;
  int there = inside(&device_arena, to), here = inside(&device_arena, from);
  return there ? (here ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice) : here ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost;
}

EXPORT cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream) {
  log_entry(kLogCopy, stream, (uint64_t)direction(to, from, kind), (int64_t)bytes);
  return carry(to, from, bytes);
}
EXPORT cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind) {
  cudaMemcpyAsync(to, from, bytes, kind, NULL);
  log_entry(kLogSyncStream, NULL, 0, 0);
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemcpyPeerAsync(void* to, int there, const void* from, int here, size_t bytes, cudaStream_t stream) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
EXPORT cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  log_entry(kLogFill, stream, 0, (int64_t)bytes);
  if (bytes <= kCarried) memset(to, value, bytes);
  return cudaSuccess;
}

EXPORT cudaError_t cudaMemset(void* to, int value, size_t bytes) { return cudaMemsetAsync(to, value, bytes, NULL); }

// Variables of kernels, which PyTorch writes at start: one place for all.
EXPORT cudaError_t cudaGetSymbolAddress(void** out, const void* symbol) {
  static char variables[1 << 16];
  *out = variables;
  return cudaSuccess;
}

EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* out, const void* address) {
  memset(out, 0, sizeof *out);
  int device = inside(&device_arena, address), pinned = inside(&pinned_arena, address);
  out->type = device ? cudaMemoryTypeDevice : pinned ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
  out->device = device || pinned ? current_device() : -1;
  out->devicePointer = device || pinned ? (void*)address : NULL;
  out->hostPointer = pinned ? (void*)address : NULL;
  return cudaSuccess;
}
