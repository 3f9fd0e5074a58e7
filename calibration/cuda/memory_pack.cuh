// Loads and stores 16 bytes of elements at once and converts them to fp32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <stdexcept>

#include "../harness/device.h"
#include "stepcast/job/job.h"

namespace stepcast::harness::cuda {

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__half x) { return __half2float(x); }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline void from_float(float x, float& y) { y = x; }
__device__ inline void from_float(float x, __half& y) { y = __float2half_rn(x); }
__device__ inline void from_float(float x, __nv_bfloat16& y) { y = __float2bfloat16_rn(x); }

template <typename T>
inline constexpr int kPack = 16 / static_cast<int>(sizeof(T));

template <typename T>
struct alignas(16) Pack {
  T at[kPack<T>];
};

template <typename T>
__device__ inline Pack<T> load(const T* tensor, std::size_t pack) {
  return reinterpret_cast<const Pack<T>*>(tensor)[pack];
}

template <typename T>
__device__ inline void store(T* tensor, std::size_t pack, const Pack<T>& value) {
  reinterpret_cast<Pack<T>*>(tensor)[pack] = value;
}

// The value of the lane whose number differs in the bit `lane` among 32. AMD's waves have 64 lanes:
// 32 of them are a half.
__device__ inline float shuffle_xor(float value, int lane) {
#if defined(__HIP__)
  return __shfl_xor(value, lane, 32);
#else
  return __shfl_xor_sync(0xffffffffu, value, lane);
#endif
}

// Sum over the block, returned in every thread; `scratch` has 33 floats. Blocks consist of whole
// warps. Two calls may follow each other directly: the total is stored separately and is
// overwritten only after the barrier of the next sum.
__device__ inline float block_sum(float value, float* scratch) {
  for (int lane = 16; lane > 0; lane /= 2) {
    value += shuffle_xor(value, lane);
  }
  const unsigned warp = threadIdx.x / 32;
  const unsigned warps = blockDim.x / 32;
  if (threadIdx.x % 32 == 0) {
    scratch[warp] = value;
  }
  __syncthreads();
  if (warp == 0) {
    float total = threadIdx.x < warps ? scratch[threadIdx.x] : 0.0f;
    for (int lane = 16; lane > 0; lane /= 2) {
      total += shuffle_xor(total, lane);
    }
    if (threadIdx.x == 0) {
      scratch[32] = total;
    }
  }
  __syncthreads();
  return scratch[32];
}

// Calls f with a null pointer of the element type.
template <typename F>
void with_type(job::DType dtype, F&& f) {
  switch (dtype) {
    case job::DType::bf16:
      return f(static_cast<__nv_bfloat16*>(nullptr));
    case job::DType::fp16:
      return f(static_cast<__half*>(nullptr));
    case job::DType::fp32:
      return f(static_cast<float*>(nullptr));
    default:
      throw Unsupported("memory-bound kernels run in bf16, fp16 and fp32");
  }
}

}  // namespace stepcast::harness::cuda
