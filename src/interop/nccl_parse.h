#pragma once

#include <string>
#include <string_view>

namespace stepcast::interop {

// Throws InputError at control characters that no log has (ESC, for terminals' colours, is
// allowed), and for an empty text.
void check_is_text(std::string_view text, const std::string& file);

// The version 2.28.7 for the code 22807 (NCCL_VERSION of nccl.h: X * 10000 + Y * 100 + Z); other
// texts are returned unchanged.
std::string version_name(std::string_view code);

}  // namespace stepcast::interop
