// fp8 (E4M3) under CUDA's name, for random operands. MI300 reads the FNUZ variant, whose numbers
// are half of what the same bits mean in OCP's, which MI350 reads; no time depends on that factor.
// Minus zero is NaN in FNUZ, so it is not made.
#pragma once

#include <cuda_runtime.h>

#include <cmath>

struct __nv_fp8_e4m3 {
  unsigned char bits = 0;
  __nv_fp8_e4m3() = default;
  // To the nearest OCP value, ties to even, clipped to +-240: the largest exponent, which FNUZ has
  // as well, is not used beyond.
  __host__ __device__ explicit __nv_fp8_e4m3(float x) {
    constexpr float kLargest = 240.0F;
    constexpr float kSmallestNormal = 0x1p-6F;
    const float size = fminf(fabsf(x), kLargest);
    unsigned code = 0;
    if (size >= kSmallestNormal) {
      union {
        float value;
        unsigned bits;
      } as{size};
      // fp32's exponent and the upper 3 bits of its mantissa; rounding may carry into the exponent.
      code = (as.bits + 0x7ffffU + (as.bits >> 20 & 1U)) >> 20;
      code -= (127U - 7U) << 3;
    } else {
      code = static_cast<unsigned>(rintf(size * 0x1p9F));  // steps of 2^-9
    }
    bits = static_cast<unsigned char>(code == 0 ? 0U : code | (x < 0 ? 0x80U : 0U));
  }
};
