// What to change in a job that does not fit, behind its forecast on the terminal.
#pragma once

#include <cstddef>
#include <string>

#include "stepcast/result/report.h"

namespace stepcast::report {

// The report's advice, and its notes from the one numbered `note` on. Begins with an empty line; empty where there is
// neither.
std::string advice_text(const result::Report& report, std::size_t note, bool colour, int width = 100);

}  // namespace stepcast::report
