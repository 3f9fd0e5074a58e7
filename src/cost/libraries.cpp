#include <algorithm>
#include <fstream>
#include <set>

#include "calibration_file.h"

namespace stepcast::cost {

// Reads only the first few lines of each file and parses nothing.
std::vector<std::string> gemm_libraries(const std::filesystem::path& calibration_dir,
                                        const std::string& device) {
  std::set<std::string> found;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(calibration_dir, error), end;
       !error && it != end; it.increment(error)) {
    if (it->path().extension() != ".yaml") {
      continue;
    }
    std::ifstream in(it->path());
    std::string line;
    std::getline(in, line);
    if (line != "kind: gemm" && line != "kind: grouped") {
      continue;
    }
    bool ours = device.empty();
    while (std::getline(in, line) && line != "curves:") {
      if (line.starts_with("devices:")) {
        // [a, b, c]
        std::replace_if(
            line.begin(), line.end(), [](char c) { return c == '[' || c == ']' || c == ','; }, ' ');
        ours = ours || (line + " ").find(" " + device + " ") != std::string::npos;
      } else if (line.starts_with("library: ") && ours) {
        found.insert(line.substr(std::string("library: ").size()));
      }
    }
  }
  return {found.begin(), found.end()};
}

}  // namespace stepcast::cost
