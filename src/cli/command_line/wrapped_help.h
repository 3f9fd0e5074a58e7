// The program's help in lines of a terminal's width.
#pragma once

#include <string>

namespace stepcast::cli {

// Descriptions of options continue below their first words; what stands behind "Example" is kept,
// since commands are copied from it.
std::string wrapped_help(const std::string& help, int width);

}  // namespace stepcast::cli
