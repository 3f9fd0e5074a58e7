// Which device a thread works on, and what it is: an H100 SXM of 80 GB as PyTorch sees it, or a B200, of which a node has eight.
#include "nullgpu.h"

#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int kDevicesOfNode = 8;
static _Thread_local int current;

int current_device(void) { return current; }

// NULLGPU_GIB: a device that can run out, or one that never does.
size_t device_capacity(void) {
  const char* gib = getenv("NULLGPU_GIB");
  return (size_t)((gib != NULL ? atof(gib) : 79.1) * (1 << 30));
}

// NULLGPU_CAPABILITY: 9 (an H100), or 10 for a B200, whose figures are those of configs/devices/b200-sxm.yaml.
EXPORT int nullgpu_capability(void) {
  const char* stated = getenv("NULLGPU_CAPABILITY");
  return stated != NULL ? atoi(stated) : 9;
}

EXPORT int nullgpu_multiprocessors(void) { return nullgpu_capability() >= 10 ? 148 : 132; }

EXPORT cudaError_t cudaGetDevice(int* out) {
  *out = current;
  return cudaSuccess;
}
EXPORT cudaError_t cudaSetDevice(int device) {
  current = device;
  return cudaSuccess;
}
EXPORT cudaError_t cudaGetDeviceCount(int* out) {
  *out = kDevicesOfNode;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDriverGetVersion(int* out) {
  *out = CUDART_VERSION;
  return cudaSuccess;
}
EXPORT cudaError_t cudaRuntimeGetVersion(int* out) { return cudaDriverGetVersion(out); }
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceCanAccessPeer(int* out, int here, int there) {
  *out = 1;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetPCIBusId(char* out, int bytes, int device) {
  snprintf(out, (size_t)bytes, "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* p, int device) {
  memset(p, 0, sizeof *p);
  const int blackwell = nullgpu_capability() >= 10;
  strcpy(p->name, blackwell ? "NVIDIA B200" : "NVIDIA H100 80GB HBM3");
  p->major = nullgpu_capability();
  p->multiProcessorCount = nullgpu_multiprocessors();
  p->warpSize = 32;
  p->totalGlobalMem = device_capacity();
  p->sharedMemPerBlock = 48 << 10;
  p->sharedMemPerBlockOptin = 227 << 10;
  p->sharedMemPerMultiprocessor = 228 << 10;
  p->reservedSharedMemPerBlock = 1 << 10;
  p->regsPerBlock = p->regsPerMultiprocessor = 1 << 16;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->maxGridSize[0] = 0x7fffffff;
  p->maxGridSize[1] = p->maxGridSize[2] = 0xffff;
  p->totalConstMem = 64 << 10;
  p->textureAlignment = 512;
  p->l2CacheSize = (blackwell ? 126 : 50) << 20;
  p->memoryBusWidth = blackwell ? 8192 : 5120;  // bits: eight stacks of HBM, or five, of 1,024
  p->concurrentKernels = p->unifiedAddressing = p->managedMemory = p->cooperativeLaunch = p->memoryPoolsSupported = 1;
  p->asyncEngineCount = 3;
  p->pciBusID = device + 1;
  memset(p->uuid.bytes, device + 1, sizeof p->uuid.bytes);
  return cudaSuccess;
}

// What is asked one by one and not in this list is a capability, which the device has.
EXPORT cudaError_t cudaDeviceGetAttribute(int* out, enum cudaDeviceAttr attribute, int device) {
  struct cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
  const struct {
    enum cudaDeviceAttr attribute;
    int value;
  } known[] = {
      {cudaDevAttrComputeCapabilityMajor, p.major},
      {cudaDevAttrComputeCapabilityMinor, p.minor},
      {cudaDevAttrMultiProcessorCount, p.multiProcessorCount},
      {cudaDevAttrWarpSize, p.warpSize},
      {cudaDevAttrMaxThreadsPerBlock, p.maxThreadsPerBlock},
      {cudaDevAttrMaxThreadsPerMultiProcessor, p.maxThreadsPerMultiProcessor},
      {cudaDevAttrMaxBlocksPerMultiprocessor, p.maxBlocksPerMultiProcessor},
      {cudaDevAttrMaxSharedMemoryPerBlock, (int)p.sharedMemPerBlock},
      {cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p.sharedMemPerBlockOptin},
      {cudaDevAttrMaxSharedMemoryPerMultiprocessor, (int)p.sharedMemPerMultiprocessor},
      {cudaDevAttrReservedSharedMemoryPerBlock, (int)p.reservedSharedMemPerBlock},
      {cudaDevAttrMaxRegistersPerBlock, p.regsPerBlock},
      {cudaDevAttrMaxRegistersPerMultiprocessor, p.regsPerMultiprocessor},
      {cudaDevAttrMaxGridDimX, p.maxGridSize[0]},
      {cudaDevAttrMaxGridDimY, p.maxGridSize[1]},
      {cudaDevAttrMaxGridDimZ, p.maxGridSize[2]},
      {cudaDevAttrL2CacheSize, p.l2CacheSize},
      {cudaDevAttrGlobalMemoryBusWidth, p.memoryBusWidth},
      {cudaDevAttrClockRate, 1980000},
      {cudaDevAttrMemoryClockRate, 2619000},
  };
  *out = 1;
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (known[i].attribute == attribute) *out = known[i].value;
  return cudaSuccess;
}
