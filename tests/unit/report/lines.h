// The lines of a text.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace stepcast::test {

inline std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> out;
  std::stringstream in(text);
  for (std::string line; std::getline(in, line);) {
    out.push_back(line);
  }
  return out;
}

}  // namespace stepcast::test
