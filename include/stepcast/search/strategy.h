// A forecast as an entry of a search's results.
#pragma once

#include <string>
#include <vector>

#include "stepcast/job/job.h"
#include "stepcast/result/report.h"
#include "stepcast/result/search.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

// The strategy that `overrides` make of a job, with what `report` forecasts for `job`, which has them. Times of its parts
// are means over pipeline stages. `exact_memory`: the report's peak comes from the allocator's replay; otherwise the low end
// of the peak is what tensors alone take, which no replay is below.
result::Strategy strategy_of(const result::Report& report, const job::Job& job, const std::vector<std::string>& overrides,
                             Objective objective, bool exact_memory);

// The peak of a report by the rule of thumb; its low end is what tensors alone take, as above.
result::Estimate peak_by_rule(const result::Report& report);

}  // namespace stepcast::search
