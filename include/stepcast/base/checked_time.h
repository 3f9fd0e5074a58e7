// Sums and products of times outside the engine, which has an end of time of its own. A job may state rates at which
// every single duration fits 64 bits of picoseconds and their sum does not: that is a fault of the job.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "stepcast/base/quantity.h"

namespace stepcast {

[[noreturn]] inline void fail_time() {
  throw std::overflow_error("the sum of all durations does not fit 64-bit picoseconds (at most 106 days)");
}

inline Time checked_sum(Time a, Time b) {
  std::int64_t out = 0;
  if (__builtin_add_overflow(a.count(), b.count(), &out)) {
    fail_time();
  }
  return Time(out);
}

inline Time checked_product(std::int64_t times, Time t) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(times, t.count(), &out)) {
    fail_time();
  }
  return Time(out);
}

}  // namespace stepcast
