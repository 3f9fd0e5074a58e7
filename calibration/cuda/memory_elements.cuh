// Elementwise kernels: copy, add, SwiGLU and Adam. They are in a header so that tests can run them
// on the host, thread by thread.
#pragma once

#include <algorithm>
#include <cstddef>

#include "memory_kernels.h"
#include "memory_pack.cuh"

namespace stepcast::harness::cuda {

inline constexpr int kThreads = 256;

// Packs per thread. A thread loads all of them first, which keeps enough bytes in flight to hide
// the memory latency. It is one pack if the tensor is too small to give every SM several blocks
// otherwise.
inline int packs_per_thread(const Launch& launch, std::size_t packs) {
  return packs >= static_cast<std::size_t>(launch.sms) * 8 * kThreads * 4 ? 4 : 1;
}

inline unsigned blocks_for(std::size_t packs, int per_thread) {
  const std::size_t each =
      static_cast<std::size_t>(kThreads) * static_cast<std::size_t>(per_thread);
  return static_cast<unsigned>((packs + each - 1) / each);
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    copy_kernel(const T* __restrict__ x, T* __restrict__ y, std::size_t packs) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * (kThreads * N) + threadIdx.x;
  Pack<T> a[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const std::size_t pack = first + static_cast<std::size_t>(i) * kThreads;
    if (pack < packs) {
      a[i] = load(x, pack);
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const std::size_t pack = first + static_cast<std::size_t>(i) * kThreads;
    if (pack < packs) {
      store(y, pack, a[i]);
    }
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(kThreads)
    add_kernel(const T* __restrict__ x, const T* __restrict__ y, T* __restrict__ z,
               std::size_t packs) {
  const std::size_t first = static_cast<std::size_t>(blockIdx.x) * (kThreads * N) + threadIdx.x;
  Pack<T> a[N];
  Pack<T> b[N];
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const std::size_t pack = first + static_cast<std::size_t>(i) * kThreads;
    if (pack < packs) {
      a[i] = load(x, pack);
      b[i] = load(y, pack);
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const std::size_t pack = first + static_cast<std::size_t>(i) * kThreads;
    if (pack < packs) {
      Pack<T> sum;
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) {
        from_float(to_float(a[i].at[j]) + to_float(b[i].at[j]), sum.at[j]);
      }
      store(z, pack, sum);
    }
  }
}

// y = silu(gate) * up. One block per row; its threads run along the columns.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    swiglu_kernel(const T* __restrict__ gate_up, T* __restrict__ y, int width) {
  const std::size_t row = blockIdx.x;
  const T* gate = gate_up + row * 2 * static_cast<std::size_t>(width);
  const T* up = gate + width;
  T* out = y + row * static_cast<std::size_t>(width);
  const unsigned packs = static_cast<unsigned>(width / kPack<T>);
#pragma unroll 4
  for (unsigned pack = threadIdx.x; pack < packs; pack += kThreads) {
    const Pack<T> g = load(gate, pack);
    const Pack<T> u = load(up, pack);
    Pack<T> result;
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) {
      const float x = to_float(g.at[j]);
      from_float(x / (1.0f + __expf(-x)) * to_float(u.at[j]), result.at[j]);
    }
    store(out, pack, result);
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(const T* __restrict__ gate_up, const T* __restrict__ dy,
                           T* __restrict__ dgate_up, int width) {
  const std::size_t row = blockIdx.x;
  const T* gate = gate_up + row * 2 * static_cast<std::size_t>(width);
  const T* up = gate + width;
  T* dgate = dgate_up + row * 2 * static_cast<std::size_t>(width);
  T* dup = dgate + width;
  const T* grad = dy + row * static_cast<std::size_t>(width);
  const unsigned packs = static_cast<unsigned>(width / kPack<T>);
#pragma unroll 2
  for (unsigned pack = threadIdx.x; pack < packs; pack += kThreads) {
    const Pack<T> g = load(gate, pack);
    const Pack<T> u = load(up, pack);
    const Pack<T> d = load(grad, pack);
    Pack<T> out_gate;
    Pack<T> out_up;
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) {
      const float x = to_float(g.at[j]);
      const float sigmoid = 1.0f / (1.0f + __expf(-x));
      const float slope = sigmoid * (1.0f + x * (1.0f - sigmoid));  // d silu / dx
      const float dout = to_float(d.at[j]);
      from_float(dout * to_float(u.at[j]) * slope, out_gate.at[j]);
      from_float(dout * x * sigmoid, out_up.at[j]);
    }
    store(dgate, pack, out_gate);
    store(dup, pack, out_up);
  }
}

static __global__ void square_kernel(float* x, std::size_t elements) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < elements; i += step) {
    x[i] *= x[i];
  }
}

// Optimizers of the frameworks pass a list of tensors in the kernel's arguments (4 KiB) and assign
// each block one chunk of one tensor. More chunks need several launches.
inline constexpr int kAdamThreads = 512;
inline constexpr int kAdamChunk = 65536;  // elements; the frameworks' value (2048 x 32)
inline constexpr int kAdamTensors = 30;
inline constexpr int kAdamBlocks = 320;

struct AdamList {
  const float* gradient[kAdamTensors];
  float* master[kAdamTensors];
  float* m[kAdamTensors];
  float* v[kAdamTensors];
  void* parameter[kAdamTensors];
  std::size_t elements[kAdamTensors];
  unsigned char tensor[kAdamBlocks];  // tensor of each block
  int chunk[kAdamBlocks];
};
static_assert(sizeof(AdamList) <= 4000, "kernel arguments end at 4 KiB");

struct AdamStep {
  float rate = 1e-4f;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float decay = 0.1f;
  float correction1 = 1.0f;  // 1 - beta1^t at a late step t
  float correction2 = 1.0f;
};

template <typename T, bool kParameter>
__global__ void __launch_bounds__(kAdamThreads) adam_kernel(const AdamList list, AdamStep step) {
  const int tensor = list.tensor[blockIdx.x];
  const std::size_t first = static_cast<std::size_t>(list.chunk[blockIdx.x]) * kAdamChunk;
  const std::size_t left = list.elements[tensor] - first;
  const unsigned quads = static_cast<unsigned>((left < kAdamChunk ? left : kAdamChunk) / 4);
  const float4* gradient = reinterpret_cast<const float4*>(list.gradient[tensor] + first);
  float4* master = reinterpret_cast<float4*>(list.master[tensor] + first);
  float4* m = reinterpret_cast<float4*>(list.m[tensor] + first);
  float4* v = reinterpret_cast<float4*>(list.v[tensor] + first);
#pragma unroll 2
  for (unsigned quad = threadIdx.x; quad < quads; quad += kAdamThreads) {
    const float4 g4 = gradient[quad];
    float4 p4 = master[quad];
    float4 m4 = m[quad];
    float4 v4 = v[quad];
    const float g[4] = {g4.x, g4.y, g4.z, g4.w};
    float p[4] = {p4.x, p4.y, p4.z, p4.w};
    float mean[4] = {m4.x, m4.y, m4.z, m4.w};
    float square[4] = {v4.x, v4.y, v4.z, v4.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      mean[j] = step.beta1 * mean[j] + (1.0f - step.beta1) * g[j];
      square[j] = step.beta2 * square[j] + (1.0f - step.beta2) * g[j] * g[j];
      const float update =
          (mean[j] / step.correction1) / (sqrtf(square[j] / step.correction2) + step.epsilon) +
          step.decay * p[j];
      p[j] -= step.rate * update;
    }
    master[quad] = make_float4(p[0], p[1], p[2], p[3]);
    m[quad] = make_float4(mean[0], mean[1], mean[2], mean[3]);
    v[quad] = make_float4(square[0], square[1], square[2], square[3]);
    if constexpr (kParameter) {
      struct alignas(4 * sizeof(T)) Quad {
        T at[4];
      } out;
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        from_float(p[j], out.at[j]);
      }
      reinterpret_cast<Quad*>(static_cast<T*>(list.parameter[tensor]) + first)[quad] = out;
    }
  }
}

// Calls run(list, blocks) for each launch that `elements` parameters need, split into tensors.
template <typename T, typename Run>
void adam_lists(const float* gradient, float* master, float* m, float* v, T* parameter,
                std::size_t elements, std::size_t tensor_elements, Run&& run) {
  AdamList list;
  int tensors = 0;
  int blocks = 0;
  const auto flush = [&] {
    if (blocks > 0) {
      run(list, blocks);
    }
    blocks = 0;
    tensors = 0;
  };
  for (std::size_t first = 0; first < elements; first += tensor_elements) {
    const std::size_t count = std::min(tensor_elements, elements - first);
    const auto enlist = [&] {
      list.gradient[tensors] = gradient + first;
      list.master[tensors] = master + first;
      list.m[tensors] = m + first;
      list.v[tensors] = v + first;
      list.parameter[tensors] = parameter == nullptr ? nullptr : parameter + first;
      list.elements[tensors] = count;
      ++tensors;
    };
    enlist();
    const std::size_t chunks = (count + kAdamChunk - 1) / kAdamChunk;
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      // The list is full; the rest of this tensor starts the next list.
      if (blocks == kAdamBlocks) {
        flush();
        enlist();
      }
      list.tensor[blocks] = static_cast<unsigned char>(tensors - 1);
      list.chunk[blocks] = static_cast<int>(chunk);
      ++blocks;
    }
    if (tensors == kAdamTensors) {
      flush();
    }
  }
  flush();
}

}  // namespace stepcast::harness::cuda
