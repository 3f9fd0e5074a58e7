// Heads of the shipped files, whose YAML was parsed when the program was built: those who look for one file among many need
// not read what the others hold.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "stepcast/text/document.h"

namespace stepcast::text {

// As read_yaml(), but without the entry `without` of the outermost map. Empty where the file is not as it was when the
// program was built: then only reading the whole file finds what is wrong in that entry.
std::optional<Value> read_shipped(const std::filesystem::path& file, std::string_view without);

}  // namespace stepcast::text
