// A forecast with the resources of the whole run: the report of report.h with one more section, which in JSON is the key
// "run".
#pragma once

#include <optional>
#include <string>

#include "stepcast/result/report.h"
#include "stepcast/result/run_cost.h"

namespace stepcast::report {

// Without a run, the result is exactly that of report.h.
std::string terminal(const result::Report& report, const std::optional<result::RunCost>& run, bool colour, int width);
std::string json(const result::Report& report, const std::optional<result::RunCost>& run);

}  // namespace stepcast::report
