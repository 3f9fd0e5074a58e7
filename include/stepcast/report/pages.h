// Searches, comparisons and sweeps as pages of their own (page.h): self-contained, nothing from elsewhere. Each holds its
// JSON too (#data), and its figures name what they are (data-figure, data-value).
#pragma once

#include <string>

#include "stepcast/result/algorithms.h"
#include "stepcast/result/compare.h"
#include "stepcast/result/search.h"

namespace stepcast::report {

// The best strategy and what proves it; time against memory and GPUs; the ranking with where each step goes; what the
// runner-up loses by; what other hardware would bring; what was not possible and why.
std::string html(const result::Search& search);

// Search algorithms side by side: what each forecasts of its own answer, and what the engine does.
std::string html(const result::Algorithms& algorithms);

// A bar with its interval and its parts for each system that runs the job, memory against capacity, and why others do not.
std::string html(const result::Comparison& comparison);

}  // namespace stepcast::report
