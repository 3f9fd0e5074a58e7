// Runs CUDA kernels on the host, with one thread for each thread of a block and one block after the
// other, so that their arithmetic, bounds and barriers can be tested without a GPU. A file that
// launches kernels is compiled as C++ after `kernel<<<grid, block, shared, stream>>>(...)` was
// rewritten to `cuda_emulator::launch({grid, block, shared, stream}, kernel, ...)`
// (tests/cuda_on_host.cmake). Covers what the harness uses: block barriers, full-warp butterfly
// shuffles, static shared memory. As on the device, no order between warps is guaranteed.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <barrier>
#include <cmath>
#include <cstddef>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace cuda_emulator {

struct Configuration {
  dim3 grid = {1, 1, 1};
  dim3 block = {1, 1, 1};
  std::size_t shared = 0;
  cudaStream_t stream = nullptr;
};

struct Warp {
  explicit Warp(int threads) : barrier(threads) {}
  std::barrier<> barrier;
  double lane[32] = {};
};

struct Block {
  explicit Block(int threads) : barrier(threads) {
    for (int first = 0; first < threads; first += 32) {
      warps.push_back(std::make_unique<Warp>(std::min(32, threads - first)));
    }
  }
  std::barrier<> barrier;
  std::vector<std::unique_ptr<Warp>> warps;
};

inline thread_local Block* block = nullptr;
inline thread_local int thread = 0;  // index within the block

}  // namespace cuda_emulator

#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __shared__
#define __shared__ static  // blocks run one after the other

inline thread_local uint3 threadIdx{};
inline thread_local uint3 blockIdx{};
inline thread_local dim3 blockDim{};
inline thread_local dim3 gridDim{};

inline void __syncthreads() { cuda_emulator::block->barrier.arrive_and_wait(); }

template <typename T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  const int thread = cuda_emulator::thread;
  auto& warp = *cuda_emulator::block->warps[static_cast<std::size_t>(thread / 32)];
  warp.lane[thread % 32] = static_cast<double>(value);  // exact for float and 32-bit integers
  warp.barrier.arrive_and_wait();
  const double other = warp.lane[(thread % 32) ^ mask];
  warp.barrier.arrive_and_wait();
  return static_cast<T>(other);
}

inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }

namespace cuda_emulator {

template <typename... P>
void launch(const Configuration& c, void (*kernel)(P...), std::type_identity_t<P>... arguments) {
  const int threads = static_cast<int>(c.block.x * c.block.y * c.block.z);
  Block shared(threads);
  std::vector<std::thread> running;
  running.reserve(static_cast<std::size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    running.emplace_back([&, t] {
      block = &shared;
      thread = t;
      blockDim = c.block;
      gridDim = c.grid;
      const auto id = static_cast<unsigned>(t);
      threadIdx = {id % c.block.x, id / c.block.x % c.block.y, id / (c.block.x * c.block.y)};
      for (unsigned b = 0; b < c.grid.x * c.grid.y * c.grid.z; ++b) {
        blockIdx = {b % c.grid.x, b / c.grid.x % c.grid.y, b / (c.grid.x * c.grid.y)};
        kernel(arguments...);
        shared.barrier.arrive_and_wait();  // blocks share the static arrays
      }
    });
  }
  for (std::thread& t : running) {
    t.join();
  }
}

}  // namespace cuda_emulator
