#include "preset_file.h"

#include "../command_line/command_line.h"
#include "stepcast/text/document.h"

namespace stepcast::cli {

std::filesystem::path preset_file(const char* kind, const std::string& name) {
  const std::filesystem::path file = text::data_directory() / "configs" / kind / (name + ".yaml");
  return std::filesystem::exists(file) ? file : std::filesystem::path(name);
}

void require_calibration(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) {
      throw option_fault(
          "--calibration",
          "there is no '" + path + "'; expected a file or folder of simulate calibrate gpu");
    }
  }
}

}  // namespace stepcast::cli
