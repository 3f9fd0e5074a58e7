// Splits a shell script into tokens with their places. Words keep their quotes and variables, which
// are expanded when the command is evaluated (shell_expand.h).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stepcast/base/diagnostics.h"

namespace stepcast::interop::launch {

struct Token {
  enum class Kind { word, operation, array, end } kind = Kind::word;
  std::string_view text;  // part of the source; array: "NAME=" or "NAME+="
  Origin origin;
  std::vector<Token> items;  // array: its words
};

// Throws InputError for a quote or bracket that never closes.
std::vector<Token> lex_shell(std::string_view source, const std::string& file);

// The position after the quoted text, ${...}, $(...) or `...` that begins at `at`; `at` + 1 for
// anything else.
std::size_t end_of_group(std::string_view source, std::size_t at, int depth = 0);

}  // namespace stepcast::interop::launch
