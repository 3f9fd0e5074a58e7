// Row-wise kernels: RMSNorm and softmax with cross-entropy. Each reads its row once: statistics are
// computed while the row stays in registers (norm) or online (cross-entropy). They are in a header
// so that tests can run them on the host, thread by thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "memory_kernels.h"
#include "memory_pack.cuh"

namespace stepcast::harness::cuda {

inline constexpr float kEpsilon = 1e-5f;
inline constexpr int kLossThreads = 512;

__device__ inline float block_max(float value, float* scratch) {
  for (int lane = 16; lane > 0; lane /= 2) {
    value = fmaxf(value, shuffle_xor(value, lane));
  }
  const unsigned warp = threadIdx.x / 32;
  const unsigned warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) {
    scratch[warp] = value;
  }
  __syncthreads();
  float highest = scratch[0];
  for (unsigned i = 1; i < warps; ++i) {
    highest = fmaxf(highest, scratch[i]);
  }
  __syncthreads();  // afterwards the scratch may be overwritten
  return highest;
}

// One block per row; each thread holds N packs of it.
template <typename T, int N>
__global__ void rms_norm_kernel(const T* __restrict__ x, const T* __restrict__ weight,
                                T* __restrict__ y, float* __restrict__ inverse_rms, int width) {
  __shared__ float scratch[33];
  const std::size_t row = blockIdx.x;
  const T* in = x + row * static_cast<std::size_t>(width);
  T* out = y + row * static_cast<std::size_t>(width);
  const unsigned packs = static_cast<unsigned>(width / kPack<T>);
  Pack<T> a[N];
  float squares = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const unsigned pack = threadIdx.x + static_cast<unsigned>(i) * blockDim.x;
    if (pack < packs) {
      a[i] = load(in, pack);
    }
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const unsigned pack = threadIdx.x + static_cast<unsigned>(i) * blockDim.x;
    if (pack < packs) {
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) {
        const float value = to_float(a[i].at[j]);
        squares += value * value;
      }
    }
  }
  const float inverse = rsqrtf(block_sum(squares, scratch) / static_cast<float>(width) + kEpsilon);
  if (threadIdx.x == 0) {
    inverse_rms[row] = inverse;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const unsigned pack = threadIdx.x + static_cast<unsigned>(i) * blockDim.x;
    if (pack < packs) {
      const Pack<T> w = load(weight, pack);
      Pack<T> result;
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) {
        from_float(to_float(a[i].at[j]) * inverse * to_float(w.at[j]), result.at[j]);
      }
      store(out, pack, result);
    }
  }
}

// With xhat = x / rms and c = mean(dy w xhat): dx = (dy w - xhat c) / rms, and dweight is the sum
// of dy xhat over the rows. A block takes every gridDim-th row and writes its part of dweight to
// `partial`.
template <typename T, int N>
__global__ void rms_norm_backward_kernel(const T* __restrict__ dy, const T* __restrict__ x,
                                         const T* __restrict__ weight,
                                         const float* __restrict__ inverse_rms, T* __restrict__ dx,
                                         float* __restrict__ partial, std::size_t rows, int width) {
  __shared__ float scratch[33];
  const unsigned packs = static_cast<unsigned>(width / kPack<T>);
  float dweight[N][kPack<T>] = {};
  for (std::size_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::size_t offset = row * static_cast<std::size_t>(width);
    Pack<T> grad[N];
    Pack<T> in[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const unsigned pack = threadIdx.x + static_cast<unsigned>(i) * blockDim.x;
      if (pack < packs) {
        grad[i] = load(dy + offset, pack);
        in[i] = load(x + offset, pack);
      }
    }
    const float inverse = inverse_rms[row];
    float product = 0;
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const unsigned pack = threadIdx.x + static_cast<unsigned>(i) * blockDim.x;
      if (pack < packs) {
        const Pack<T> w = load(weight, pack);
#pragma unroll
        for (int j = 0; j < kPack<T>; ++j) {
          const float xhat = to_float(in[i].at[j]) * inverse;
          const float d = to_float(grad[i].at[j]);
          dweight[i][j] += d * xhat;
          product += d * to_float(w.at[j]) * xhat;
        }
      }
    }
    const float mean = block_sum(product, scratch) / static_cast<float>(width);
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const unsigned pack = threadIdx.x + static_cast<unsigned>(i) * blockDim.x;
      if (pack < packs) {
        const Pack<T> w = load(weight, pack);
        Pack<T> result;
#pragma unroll
        for (int j = 0; j < kPack<T>; ++j) {
          const float xhat = to_float(in[i].at[j]) * inverse;
          from_float((to_float(grad[i].at[j]) * to_float(w.at[j]) - xhat * mean) * inverse,
                     result.at[j]);
        }
        store(dx + offset, pack, result);
      }
    }
  }
  float* mine = partial + static_cast<std::size_t>(blockIdx.x) * static_cast<std::size_t>(width);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const unsigned pack = threadIdx.x + static_cast<unsigned>(i) * blockDim.x;
    if (pack < packs) {
#pragma unroll
      for (int j = 0; j < kPack<T>; ++j) {
        mine[pack * kPack<T> + j] = dweight[i][j];
      }
    }
  }
}

// Sums the columns of `partial`: each block takes 32 columns, and its 32 warps take the rows in
// turn.
template <typename T>
__global__ void __launch_bounds__(1024)
    sum_columns_kernel(const float* __restrict__ partial, T* __restrict__ dweight, int rows,
                       int width) {
  __shared__ float part[32][33];
  const int column = static_cast<int>(blockIdx.x * 32 + threadIdx.x);
  float sum = 0;
  if (column < width) {
#pragma unroll 8
    for (int row = static_cast<int>(threadIdx.y); row < rows; row += 32) {
      sum += partial[static_cast<std::size_t>(row) * static_cast<std::size_t>(width) + column];
    }
  }
  part[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  // Warp y now adds the partial sums that the warps computed for column y of these 32.
  float total = part[threadIdx.x][threadIdx.y];
  for (int lane = 16; lane > 0; lane /= 2) {
    total += shuffle_xor(total, lane);
  }
  const int mine = static_cast<int>(blockIdx.x * 32 + threadIdx.y);
  if (threadIdx.x == 0 && mine < width) {
    from_float(total, dweight[mine]);
  }
}

static __global__ void labels_kernel(std::int64_t* labels, std::size_t rows, int width) {
  const std::size_t row = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row < rows) {
    // Multiplicative hashing by 2^64 / golden ratio distributes the labels over the vocabulary.
    const unsigned long long hash = (row + 1) * 0x9E3779B97F4A7C15ull;
    labels[row] = static_cast<std::int64_t>((hash >> 32) % static_cast<unsigned>(width));
  }
}

// Online log-sum-exp: each thread keeps the largest logit so far and the sum of exponentials
// relative to it; the block then rescales the sums to a common maximum.
template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_kernel(const T* __restrict__ logits, const std::int64_t* __restrict__ labels,
                         float* __restrict__ loss, float* __restrict__ log_sum, int width) {
  constexpr int kLoads = 4;
  __shared__ float scratch[33];
  const std::size_t row = blockIdx.x;
  const T* in = logits + row * static_cast<std::size_t>(width);
  const unsigned packs = static_cast<unsigned>(width / kPack<T>);
  float highest = -INFINITY;
  float sum = 0;
  for (unsigned base = threadIdx.x; base < packs; base += kLossThreads * kLoads) {
    Pack<T> a[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const unsigned pack = base + static_cast<unsigned>(i) * kLossThreads;
      if (pack < packs) {
        a[i] = load(in, pack);
      }
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const unsigned pack = base + static_cast<unsigned>(i) * kLossThreads;
      if (pack < packs) {
        float top = to_float(a[i].at[0]);
#pragma unroll
        for (int j = 1; j < kPack<T>; ++j) {
          top = fmaxf(top, to_float(a[i].at[j]));
        }
        if (top > highest) {
          sum *= __expf(highest - top);
          highest = top;
        }
#pragma unroll
        for (int j = 0; j < kPack<T>; ++j) {
          sum += __expf(to_float(a[i].at[j]) - highest);
        }
      }
    }
  }
  const float top = block_max(highest, scratch);
  const float total = block_sum(sum * __expf(highest - top), scratch);
  if (threadIdx.x == 0) {
    const float result = top + __logf(total);
    log_sum[row] = result;
    loss[row] = result - to_float(in[labels[row]]);
  }
}

// dlogits = (softmax - 1 at the label) times the gradient of the mean over the rows.
template <typename T>
__global__ void __launch_bounds__(kLossThreads)
    cross_entropy_backward_kernel(const T* __restrict__ logits,
                                  const std::int64_t* __restrict__ labels,
                                  const float* __restrict__ log_sum, T* __restrict__ dlogits,
                                  int width, float scale) {
  const std::size_t row = blockIdx.x;
  const std::size_t offset = row * static_cast<std::size_t>(width);
  const unsigned packs = static_cast<unsigned>(width / kPack<T>);
  const float norm = log_sum[row];
  const unsigned label = static_cast<unsigned>(labels[row]);
#pragma unroll 4
  for (unsigned pack = threadIdx.x; pack < packs; pack += kLossThreads) {
    const Pack<T> a = load(logits + offset, pack);
    Pack<T> result;
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) {
      const float one = pack * kPack<T> + static_cast<unsigned>(j) == label ? 1.0f : 0.0f;
      from_float((__expf(to_float(a.at[j]) - norm) - one) * scale, result.at[j]);
    }
    store(dlogits + offset, pack, result);
  }
}

// Packs of a row per thread (N) and threads per block, for rows up to kMaxNormWidth.
struct RowSplit {
  int each = 1;
  unsigned threads = 32;
};

template <typename T>
RowSplit split(int width) {
  const int packs = width / kPack<T>;
  RowSplit s;
  s.each = packs >= 512 ? 4 : packs >= 128 ? 2 : 1;
  const int threads = (packs + s.each - 1) / s.each;
  s.threads = static_cast<unsigned>((threads + 31) / 32 * 32);
  return s;
}

// Calls f with N as a compile-time constant.
template <typename F>
void with_count(int each, F&& f) {
  if (each == 4) {
    f.template operator()<4>();
  } else if (each == 2) {
    f.template operator()<2>();
  } else {
    f.template operator()<1>();
  }
}

}  // namespace stepcast::harness::cuda
