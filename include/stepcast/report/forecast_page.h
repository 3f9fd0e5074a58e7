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
  result::MemoryTimeline memory;       // without stages the page leaves it out
  result::LinkUse links;               // without classes the page leaves it out
  std::optional<result::RunCost> run;  // workload.tokens
  std::string job;                     // as --show-job prints it: every value with its origin
};

// The report's trace becomes the page's timeline; a report without a trace (a bound) gives a page without a timeline. All
// figures are in the page's text; only zooming in the timeline needs JavaScript. Without JavaScript, and in print, the
// timeline is a still picture.
std::string html(const result::Report& report, const ForecastDetails& details);

}  // namespace stepcast::report
