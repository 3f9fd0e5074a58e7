// 128 bits of a state or of a course of events: equal digests are taken for equal states.
#pragma once

#include <cstdint>

#include "stepcast/base/fnv.h"

namespace stepcast::engine {

struct Digest {
  std::uint64_t a = kFnvOffset;
  std::uint64_t b = 0x9e3779b97f4a7c15ULL;

  void mix(std::int64_t value) {
    const auto v = static_cast<std::uint64_t>(value);
    a = fnv_mix(a, v);
    b = (b + v) * 0xff51afd7ed558ccdULL;
    b ^= b >> 32;
  }
  // Of things that come in an order that tells nothing.
  void add(const Digest& one) {
    a += one.a;
    b += one.b;
  }
  bool operator==(const Digest&) const = default;
};

}  // namespace stepcast::engine
