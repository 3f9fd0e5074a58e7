// Reads whole files and checks what all text formats have in common. Private to this folder.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "stepcast/base/diagnostics.h"
#include "stepcast/text/document.h"

namespace stepcast::text {

// Deeper nesting is an attack or an accident. The limit also bounds the readers' recursion.
constexpr int kDepthLimit = 64;

[[noreturn]] void fail(Origin where, std::string message);

// Returns the file's bytes without a byte-order mark. Throws InputError when the file is missing,
// is no regular file or is too big.
std::string read_file(const std::filesystem::path& file, std::size_t most = kBiggestText);

// Adds a file to the list of stepcast/text/opened.h, where one is kept.
void note_opened(const std::filesystem::path& file);

// Throws InputError at the first byte that a text file cannot contain: a control character or
// malformed UTF-8.
void check_is_text(std::string_view text, const std::string& name);

}  // namespace stepcast::text
