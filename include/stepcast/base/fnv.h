// The 64-bit FNV-1a hash (draft-eastlake-fnv, section 5), for keys and seeds that must be the same on
// every machine, which std::hash does not promise; and a digest of numbers by the same constants.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepcast {

inline constexpr std::uint64_t kFnvOffset = 0xcbf29ce484222325U;
inline constexpr std::uint64_t kFnvPrime = 0x100000001b3U;

// Continues `hash` over the bytes of `text`; by default begins a new one.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = kFnvOffset) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * kFnvPrime;
  }
  return hash;
}

// Continues a digest over one number: FNV-1a's step over all 64 bits at once, which is no published
// hash. A product carries differences upwards alone, so its high half goes into the low one.
constexpr std::uint64_t fnv_mix(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * kFnvPrime;
  return hash ^ (hash >> 29);
}

}  // namespace stepcast
