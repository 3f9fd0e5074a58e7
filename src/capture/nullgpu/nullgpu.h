// A CUDA runtime without a GPU: memory is address space, streams and events are handles, kernels do
// nothing. Preloaded, it lets an unmodified PyTorch run a training step on any host. Allocator,
// streams, autograd and hooks are PyTorch's own, so what is allocated and reserved and the order of
// calls are those of a real step. What a kernel would compute is zero.
#pragma once
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

// Address space that looks like device memory. It is never given back, so no two tensors ever share
// an address.
EXPORT void* nullgpu_addresses(size_t bytes);
// Takes physical memory of the current device, or gives it back (negative). 0: the device has not
// that much left.
EXPORT int nullgpu_take(long bytes);
EXPORT long nullgpu_launches(void);
// Of the device: the major number of its compute capability, its multiprocessors.
EXPORT int nullgpu_capability(void);
EXPORT int nullgpu_multiprocessors(void);
EXPORT int nullgpu_launch(void* stream);
void stream_issued_collective(void* stream);

size_t device_capacity(void);
size_t device_used(void);
int current_device(void);
