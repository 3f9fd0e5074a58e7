// Units of sizes, in bytes.
#pragma once

#include <cstdint>

namespace stepcast::test {

inline constexpr std::int64_t kKiB = 1 << 10;
inline constexpr std::int64_t kMiB = 1 << 20;
inline constexpr std::int64_t kGiB = 1 << 30;

}  // namespace stepcast::test
