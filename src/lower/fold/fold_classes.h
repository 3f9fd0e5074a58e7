// Classes of elements that have the same colour.
#pragma once

#include <cstdint>
#include <vector>

#include "stepcast/base/splitmix.h"

namespace stepcast::lower {

using Colour = std::uint64_t;

constexpr Colour mix_colours(Colour a, Colour b) { return splitmix(a * kSplitMixStep + b); }

struct Classes {
  std::vector<std::uint32_t> of;     // by element
  std::vector<std::uint32_t> first;  // by class: its representative
  std::uint32_t count() const { return static_cast<std::uint32_t>(first.size()); }
};

// Dense class numbers, in order of first appearance.
Classes classes_of(const std::vector<Colour>& colours);

}  // namespace stepcast::lower
