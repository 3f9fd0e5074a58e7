// Faults of the command line: one line that names the option.
#pragma once

#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"

namespace stepcast::cli {

// "OPTION: error: MESSAGE" as a fault.
InputError option_fault(const std::string& option, const std::string& message);

// `text` as an integer of at least `minimum`; the fault names `option`.
int integer_option(const std::string& option, const std::string& text, int minimum);

// Comma-separated numbers, exactly `count` of them, none negative.
std::vector<double> number_list(const std::string& option, const std::string& text,
                                std::size_t count);

}  // namespace stepcast::cli
