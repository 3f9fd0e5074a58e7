// Files that options name.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stepcast::cli {

// A path, or a name in configs/KIND.
std::filesystem::path preset_file(const char* kind, const std::string& name);
// Throws InputError where a path after --calibration does not exist.
void require_calibration(const std::vector<std::string>& paths);

}  // namespace stepcast::cli
