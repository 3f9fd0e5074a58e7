// Counts the occurrences of a word in a text.
#pragma once

#include <cstddef>
#include <string>

namespace stepcast::test {

// Occurrences may overlap.
inline std::size_t count(const std::string& text, const std::string& what) {
  std::size_t n = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++n;
  }
  return n;
}

}  // namespace stepcast::test
