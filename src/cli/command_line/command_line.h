// Exit statuses, and faults of the command line: one line that names the option.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"

namespace stepcast::cli {

// The program's exit statuses. cannot_run: the job does not fit in memory, or something failed that
// is not the input's fault.
enum Status { done = 0, cannot_run = 1, bad_input = 2 };

// Runs `run`, prints the faults that it throws, and returns the exit status.
int with_faults(const std::function<int()>& run);

// "OPTION: error: MESSAGE" as a fault.
InputError option_fault(const std::string& option, const std::string& message);

// `text` as an integer of at least `minimum`; the fault names `option`.
int integer_option(const std::string& option, const std::string& text, int minimum);
// The same of an option that may be left out: then `absent`.
int integer_option(const std::string& option, const std::string& text, int minimum, int absent);

// Whether `name` can be part of a file's name and a YAML scalar: letters, digits, and not at its
// beginning dashes and dots; also underscores.
bool is_plain_name(const std::string& name, bool capitals);

// Comma-separated numbers, exactly `count` of them, none negative.
std::vector<double> number_list(const std::string& option, const std::string& text,
                                std::size_t count);

}  // namespace stepcast::cli
