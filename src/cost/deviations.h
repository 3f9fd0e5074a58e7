// Reads relative standard deviations by the words of an enum: {compute: 0.03, host: 0.1}.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/base/spelling.h"
#include "stepcast/text/map.h"

namespace stepcast::cost {

// The keys of a map: its own, and the words of its parts.
template <class Part>
text::Keys keys_with(std::vector<std::string> own, const char* after) {
  text::Keys out{std::move(own), after};
  const auto words = words_of<Part>();
  out.names.insert(out.names.end(), words.begin(), words.end());
  return out;
}

template <class Part, std::size_t N>
void read_deviations(const text::Value& map, std::array<double, N>& out) {
  constexpr double kLargest = 1;  // nothing is known of the part
  for (const auto& [part, word] : spellings(Part{})) {
    if (const text::Value* deviation = map.find(word)) {
      const double x = text::to_number(*deviation);
      if (!(x >= 0 && x <= kLargest)) {
        text::fault(deviation->origin,
                    fmt::format("{} is {}; expected 0 to {}", word, x, kLargest));
      }
      out[static_cast<std::size_t>(part)] = x;
    }
  }
}

}  // namespace stepcast::cost
