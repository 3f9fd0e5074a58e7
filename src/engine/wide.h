// 128-bit integers for products of time and rate.
#pragma once

#include <algorithm>
#include <cstdint>

#include "stepcast/base/quantity.h"

namespace stepcast::engine {

__extension__ using Int128 = __int128;

// The end of time: no instant of a run lies at it or behind it, and no duration exceeds it, so that
// an instant and a duration always add up within 64 bits. 53 days.
inline constexpr Time kEndOfTime{(std::int64_t{1} << 62) - 1};

// Smallest integer not below a / b, for a >= 0 and b > 0, or the end of time if that is less; takes
// the 64-bit division when both fit.
inline std::int64_t ceil_divide(Int128 a, std::int64_t b) {
  if (a <= 0) {
    return 0;
  }
  if (static_cast<std::uint64_t>(a >> 64) == 0 && static_cast<std::int64_t>(a) >= 0) {
    const auto n = static_cast<std::uint64_t>(a);
    const auto d = static_cast<std::uint64_t>(b);
    return std::min(static_cast<std::int64_t>(n / d + (n % d != 0 ? 1 : 0)), kEndOfTime.count());
  }
  return static_cast<std::int64_t>(std::min((a + b - 1) / b, Int128{kEndOfTime.count()}));
}

// Largest integer not above a / b, for b > 0; 0 for negative a.
inline Int128 floor_divide(Int128 a, Int128 b) {
  if (a <= 0) {
    return 0;
  }
  if (static_cast<std::uint64_t>(a >> 64) == 0 && static_cast<std::uint64_t>(b >> 64) == 0) {
    return Int128{static_cast<std::uint64_t>(a) / static_cast<std::uint64_t>(b)};
  }
  return a / b;
}

// What is done in `t` at so much a picosecond, and the time that it takes, rounded up: the engine's
// only ways from time to a number and back.
inline Int128 work(std::int64_t rate, Time t) { return Int128{rate} * t.count(); }
inline Time time_of(Int128 work, std::int64_t rate) { return Time(ceil_divide(work, rate)); }

}  // namespace stepcast::engine
