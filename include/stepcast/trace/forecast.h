// A forecast in the terms of a profile.
#pragma once

#include <optional>

#include "stepcast/result/report.h"
#include "stepcast/result/trace.h"

namespace stepcast::trace {

// The step of stage `stage` of a forecast with its trace (Report::trace), divided as a profile's is: by the same sweep over
// the tasks of the stage's busiest rank. Kernels count by the curves that priced them. Nothing where the forecast has no
// such stage.
std::optional<result::TraceStep> forecast_step(const result::Report& report, int stage);

// Puts the forecast of `stage` beside the mean step of `rank`: of all its steps but the last, which ends on the device with
// its own last kernel and not with the next step's first.
std::optional<result::TraceForecast> compare(const result::TraceRank& rank, const result::Report& report, int stage);

}  // namespace stepcast::trace
