// The resources of a run, as parts of the reports of forecasts and plans.
#pragma once

#include <string>

#include "../record/value.h"
#include "../text/format.h"
#include "stepcast/report/page.h"
#include "stepcast/result/run_cost.h"

namespace stepcast::report {

std::string tokens_text(double tokens);  // 15.6e12
// A figure of a catalogue and its source.
Record catalogue_fields(const result::PlanFigure& figure);

std::string run_text(const result::RunCost& run, const Paint& paint, int width);
Record run_fields(const result::RunCost& run);
void add_run(Page& page, const std::optional<result::RunCost>& run);

}  // namespace stepcast::report
