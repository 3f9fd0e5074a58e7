// Classes of elements that have the same colour.
#pragma once

#include <cstdint>
#include <vector>

namespace stepcast::lower {

using Colour = std::uint64_t;

constexpr Colour mix_colours(Colour x) {  // SplitMix64's finaliser
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9U;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}
constexpr Colour mix_colours(Colour a, Colour b) {
  return mix_colours(a * 0x9e3779b97f4a7c15U + b);
}

struct Classes {
  std::vector<std::uint32_t> of;     // by element
  std::vector<std::uint32_t> first;  // by class: its representative
  std::uint32_t count() const { return static_cast<std::uint32_t>(first.size()); }
};

// Dense class numbers, in order of first appearance.
Classes classes_of(const std::vector<Colour>& colours);

}  // namespace stepcast::lower
