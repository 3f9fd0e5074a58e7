// Arithmetic with the sizes that options state. A file may state any number, so results stay below
// a bound, beyond which the job itself refuses them.
#pragma once

#include <algorithm>
#include <cstdint>

namespace stepcast::interop::launch {

inline constexpr std::int64_t kMany = 1'000'000'000'000'000;

constexpr std::int64_t product(std::int64_t x, std::int64_t y) {
  std::int64_t out = 0;
  return __builtin_mul_overflow(x, y, &out) ? kMany : std::min(out, kMany);
}

// The whole part of a number.
constexpr std::int64_t whole_part(double x) {
  constexpr auto kBound = static_cast<double>(kMany);
  return static_cast<std::int64_t>(std::min(std::max(x, -kBound), kBound));
}

}  // namespace stepcast::interop::launch
