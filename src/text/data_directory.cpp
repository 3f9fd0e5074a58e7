#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

#include "files.h"
#include "stepcast/text/document.h"

namespace stepcast::text {
namespace {

bool holds_data(const std::filesystem::path& directory) {
  std::error_code error;
  return std::filesystem::is_directory(directory / "configs", error);
}

}  // namespace

std::filesystem::path data_directory() {
  if (const char* chosen = std::getenv("STEPCAST_DATA"); chosen != nullptr && *chosen != '\0') {
    if (!holds_data(chosen)) {
      fail({"STEPCAST_DATA", 0, 0},
           fmt::format("'{}' holds no configs; expected the folder that has configs/", chosen));
    }
    return chosen;
  }
  std::error_code error;
  const auto binary = std::filesystem::read_symlink("/proc/self/exe", error);
  std::filesystem::path installed = (binary.parent_path() / "../share/stepcast").lexically_normal();
  if (!error && holds_data(installed)) {
    return installed;
  }
  if (holds_data(STEPCAST_SOURCE_DIRECTORY)) {
    return STEPCAST_SOURCE_DIRECTORY;
  }
  fail({"STEPCAST_DATA", 0, 0},
       fmt::format("is not set, and {} holds no configs; expected the folder that has configs/",
                   installed.string()));
}

}  // namespace stepcast::text
