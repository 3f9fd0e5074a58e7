// Files that options name.
#pragma once

#include <filesystem>
#include <string>

namespace stepcast::cli {

// A path, or a name in configs/KIND.
std::filesystem::path preset_file(const char* kind, const std::string& name);

}  // namespace stepcast::cli
