// bf16 under CUDA's names. ROCm's own types changed (hip_bfloat16 in 5, __hip_bfloat16 from 6), so
// the conversions, which are a few bit operations, are here.
#pragma once

#include <cuda_runtime.h>

struct __nv_bfloat16 {
  unsigned short bits = 0;
};

__host__ __device__ inline float __bfloat162float(__nv_bfloat16 x) {
  union {
    unsigned bits;
    float value;
  } as{static_cast<unsigned>(x.bits) << 16};
  return as.value;
}

// To the nearest value, ties to even; NaN stays NaN.
__host__ __device__ inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  union {
    float value;
    unsigned bits;
  } as{x};
  __nv_bfloat16 out;
  if ((as.bits & 0x7fffffffU) > 0x7f800000U) {
    out.bits = static_cast<unsigned short>(as.bits >> 16 | 0x40U);
  } else {
    out.bits = static_cast<unsigned short>((as.bits + 0x7fffU + (as.bits >> 16 & 1U)) >> 16);
  }
  return out;
}

__host__ __device__ inline __nv_bfloat16 __float2bfloat16(float x) {
  return __float2bfloat16_rn(x);
}
