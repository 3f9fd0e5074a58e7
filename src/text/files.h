// Reading whole files, and what every text format here asks of them. Private to this room.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "stepcast/base/diagnostics.h"

namespace stepcast::text {

// Nesting beyond this is an attack or an accident; it also bounds the readers' recursion.
constexpr int kDepthLimit = 64;

[[noreturn]] void fail(Origin where, std::string message);

// The file's bytes, without a byte-order mark. Throws InputError when it is missing, no regular
// file, or too big.
std::string read_file(const std::filesystem::path& file);

// Throws InputError at the first byte that no text file holds: control characters and malformed
// UTF-8.
void check_is_text(std::string_view text, const std::string& name);

}  // namespace stepcast::text
