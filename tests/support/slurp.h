// The text of a whole file.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace stepcast::test {

inline std::string slurp(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace stepcast::test
