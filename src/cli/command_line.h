// Faults of the command line: one line that names the option.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "stepcast/base/diagnostics.h"

namespace stepcast::cli {

// The subcommand that was chosen, or the program itself.
const CLI::App& chosen(const CLI::App& app);

// "OPTION: error: MESSAGE" as a fault.
InputError option_fault(const std::string& option, const std::string& message);

// What CLI11 refused, in our words. `arguments` are those of main, without the program's name.
InputError explain(const CLI::App& app, const CLI::ParseError& error,
                   const std::vector<std::string>& arguments);

// `text` as an integer of at least `minimum`; the fault names `option`.
int integer_option(const std::string& option, const std::string& text, int minimum);

// Comma-separated numbers, exactly `count` of them, none negative.
std::vector<double> number_list(const std::string& option, const std::string& text,
                                std::size_t count);

}  // namespace stepcast::cli
