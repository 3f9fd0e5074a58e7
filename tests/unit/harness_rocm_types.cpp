// Numbers of bf16 and fp8 that calibration/hip/include makes.
#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "catch.hpp"
#include "cuda_fp8.h"
#include "stepcast/base/splitmix.h"

namespace {

float of_bits(std::uint32_t bits) {
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// OCP's E4M3: bias 7, subnormal below 2^-6.
double value_of(unsigned char code) {
  const int exponent = code >> 3 & 15;
  const int mantissa = code & 7;
  const double size =
      exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
  return (code & 0x80) != 0 ? -size : size;
}

}  // namespace

TEST_CASE("bf16: its own numbers come back, all others go to the nearest, ties to even") {
  for (std::uint32_t code = 0; code <= 0xffff; ++code) {
    __nv_bfloat16 x;
    x.bits = static_cast<unsigned short>(code);
    const float value = __bfloat162float(x);
    if (std::isnan(value)) {
      CHECK(std::isnan(__bfloat162float(__float2bfloat16_rn(value))));
    } else if (__float2bfloat16(value).bits != code) {
      FAIL("code " << code);
    }
  }
  CHECK(__float2bfloat16_rn(of_bits(0x3f808000)).bits == 0x3f80);  // halfway, to even
  CHECK(__float2bfloat16_rn(of_bits(0x3f818000)).bits == 0x3f82);
  CHECK(__float2bfloat16_rn(of_bits(0x3f808001)).bits == 0x3f81);
  CHECK(std::isinf(__bfloat162float(__float2bfloat16_rn(std::numeric_limits<float>::max()))));
}

TEST_CASE("fp8: the nearest number up to 240, never minus zero, which MI300 takes for NaN") {
  std::uint64_t state = 7;
  for (int i = 0; i < 200000; ++i) {
    state += stepcast::kSplitMixStep;
    const std::uint64_t bits = stepcast::splitmix(state);
    const double size = std::ldexp(1 + static_cast<double>(bits & 0xffff) / 65536.0,
                                   static_cast<int>(bits >> 16 & 31) - 16);
    const double x = (bits >> 21 & 1) != 0 ? -size : size;
    const unsigned char code = __nv_fp8_e4m3(static_cast<float>(x)).bits;
    CHECK(code != 0x80);
    const double wanted = std::clamp(x, -240.0, 240.0);
    const double missed = std::abs(value_of(code) - wanted);
    for (const int step : {-1, 1}) {
      const int other = (code & 0x7f) + step;
      if (other >= 0 && other <= 0x77) {  // 0x77: 240
        const double near = value_of(static_cast<unsigned char>(other | (code & 0x80)));
        if (std::abs(near - wanted) < missed) {
          FAIL(x << " became " << value_of(code) << ", " << near << " is nearer");
        }
      }
    }
  }
  CHECK(value_of(__nv_fp8_e4m3(1e9F).bits) == 240);
  CHECK(value_of(__nv_fp8_e4m3(-1e9F).bits) == -240);
  CHECK(__nv_fp8_e4m3(-1e-9F).bits == 0);
}
