// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014): its step and its finaliser,
// for hashes and for small generators that give the same numbers everywhere.
#pragma once

#include <cstdint>

namespace stepcast {

inline constexpr std::uint64_t kSplitMixStep = 0x9e3779b97f4a7c15U;  // 2^64 over the golden ratio

// Spreads the bits of `x` over the whole word; one to one.
constexpr std::uint64_t splitmix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

}  // namespace stepcast
