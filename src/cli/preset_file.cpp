#include "preset_file.h"

#include "stepcast/text/document.h"

namespace stepcast::cli {

std::filesystem::path preset_file(const char* kind, const std::string& name) {
  const std::filesystem::path file = text::data_directory() / "configs" / kind / (name + ".yaml");
  return std::filesystem::exists(file) ? file : std::filesystem::path(name);
}

}  // namespace stepcast::cli
