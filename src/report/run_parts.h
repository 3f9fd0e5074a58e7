// What a run takes, as parts of reports: of a forecast's, and of plans.
#pragma once

#include <string>

#include "format.h"
#include "json_writer.h"
#include "stepcast/report/page.h"
#include "stepcast/result/run_cost.h"

namespace stepcast::report {

std::string money(double value);         // 12.3 M, 456 k
std::string tokens_text(double tokens);  // 15.6e12
// The figures of a catalogue and where they are from.
Table figures_table(const std::vector<result::PlanFigure>& figures);

std::string run_text(const result::RunCost& run, const Paint& paint, int width);
void write_run(JsonWriter& out, const result::RunCost& run);  // "run": {...}
void add_run(Page& page, const std::optional<result::RunCost>& run);

}  // namespace stepcast::report
