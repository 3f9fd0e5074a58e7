#pragma once

#include <string>
#include <string_view>

namespace stepcast::interop {

// Throws InputError at control characters that no log has (terminals' colours are ESC), and where
// there is nothing at all.
void check_is_text(std::string_view text, const std::string& file);

// 22807 as 2.28.7, what else it is as it is (NCCL_VERSION of nccl.h: X * 10000 + Y * 100 + Z).
std::string version_name(std::string_view code);

}  // namespace stepcast::interop
