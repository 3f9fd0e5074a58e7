// Runs CUDA kernels on the host, one thread for each of theirs, block after block: what a kernel
// computes is checked without a GPU. Shared memory is memory that the threads share (a static),
// barriers are barriers: a missing one is a data race that ThreadSanitizer sees.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <vector_functions.h>

#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#undef __shared__
#define __shared__ static
#undef __launch_bounds__
#define __launch_bounds__(...)
// Macros, for the C library declares functions of these names.
#define __expf(x) std::exp(x)
#define __logf(x) std::log(x)

namespace on_host {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct Block {
  explicit Block(unsigned threads) : all(threads), slots(threads) {
    for (unsigned first = 0; first < threads; first += 32) {
      warps.push_back(std::make_unique<std::barrier<>>(32));
    }
  }
  std::barrier<> all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  std::vector<float> slots;  // of a warp's exchange
};

inline Block* block = nullptr;

}  // namespace on_host

inline thread_local on_host::Index threadIdx;
inline thread_local on_host::Index blockIdx;
inline on_host::Index blockDim;
inline on_host::Index gridDim;

inline void __syncthreads() { on_host::block->all.arrive_and_wait(); }

inline float __shfl_xor_sync(unsigned, float value, int lanes) {
  const unsigned thread = threadIdx.y * blockDim.x + threadIdx.x;
  std::barrier<>& warp = *on_host::block->warps[thread / 32];
  on_host::block->slots[thread] = value;
  warp.arrive_and_wait();
  const float other = on_host::block->slots[thread ^ static_cast<unsigned>(lanes)];
  warp.arrive_and_wait();
  return other;
}

inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

namespace on_host {

// Threads of a block: x times y, whole warps.
template <typename Kernel>
void run(unsigned blocks, unsigned x, unsigned y, Kernel&& kernel) {
  Block shared(x * y);
  block = &shared;
  blockDim = {x, y, 1};
  gridDim = {blocks, 1, 1};
  std::vector<std::thread> threads;
  for (unsigned id = 0; id < x * y; ++id) {
    threads.emplace_back([&, id] {
      threadIdx = {id % x, id / x, 0};
      for (unsigned b = 0; b < blocks; ++b) {
        blockIdx = {b, 0, 0};
        kernel();
        shared.all.arrive_and_wait();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  block = nullptr;
}

}  // namespace on_host
