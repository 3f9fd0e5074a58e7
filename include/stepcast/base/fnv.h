// The 64-bit FNV-1a hash (draft-eastlake-fnv, section 5), for keys and seeds that must be the same on
// every machine, which std::hash does not promise.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepcast {

// Continues `hash` over the bytes of `text`; by default begins a new one.
constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325U) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash;
}

}  // namespace stepcast
