// Runs a harness on files: every seed and every input that once caused a failure. Usage:
// `replay_NAME FILE_OR_FOLDER...`
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "fuzz.h"

namespace fs = std::filesystem;

int main(int count, char** arguments) {
  std::vector<fs::path> files;
  for (int i = 1; i < count; ++i) {
    const fs::path given(arguments[i]);
    if (!fs::is_directory(given)) {
      files.push_back(given);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(given)) {
      if (entry.is_regular_file() && entry.path().filename() != "README.md") {
        files.push_back(entry.path());
      }
    }
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    if (!in) {
      std::fprintf(stderr, "%s cannot be read\n", file.string().c_str());
      return 1;
    }
    std::ostringstream all;
    all << in.rdbuf();
    const std::string bytes = std::move(all).str();
    std::fprintf(stderr, "%s, %zu bytes: ", file.string().c_str(), bytes.size());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    const std::string& why = stepcast::fuzz::last_refusal();
    std::fprintf(stderr, "%s\n", why.empty() ? "read" : ("refused: " + why).c_str());
  }
  std::printf("%zu files read\n", files.size());
  return files.empty() ? 1 : 0;
}
