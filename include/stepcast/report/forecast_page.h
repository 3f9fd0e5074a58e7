// The forecast of one job as a page: simulate --html.
#pragma once

#include <optional>
#include <string>

#include "stepcast/result/links.h"
#include "stepcast/result/memory.h"
#include "stepcast/result/report.h"
#include "stepcast/result/run_cost.h"

namespace stepcast::report {

struct ForecastDetails {
  result::MemoryTimeline memory;       // no stages: left out
  result::LinkUse links;               // no classes: left out
  std::optional<result::RunCost> run;  // workload.tokens
  std::string job;                     // as --show-job prints it: values and where each came from
};

// The report's trace becomes the page's timeline; without one (a bound) the page has none. All figures stand in the page's
// text; only the timeline's zoom needs JavaScript, and a still picture of it stands in where there is none and in print.
std::string html(const result::Report& report, const ForecastDetails& details);

}  // namespace stepcast::report
