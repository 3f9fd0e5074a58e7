// Searches, comparisons and sweeps as pages of their own (page.h): self-contained, nothing from elsewhere. Each holds its
// JSON too (#data), and its figures name what they are (data-figure, data-value).
#pragma once

#include <string>

#include "stepcast/result/algorithms.h"
#include "stepcast/result/compare.h"
#include "stepcast/result/search.h"

namespace stepcast::report {

// The best strategy and its proof; time against memory and GPUs; the ranking with a breakdown of each step; why the
// runner-up is slower; the effect of other hardware; what was not possible and why.
std::string html(const result::Search& search);

// Search algorithms side by side: the forecast of each answer by its own cost model and by the engine.
std::string html(const result::Algorithms& algorithms);

// A bar with its interval and its parts for each system that runs the job, memory against capacity, and why others do not.
std::string html(const result::Comparison& comparison);

}  // namespace stepcast::report
