// Searches, algorithms and comparisons as self-contained pages (page.h). Each page also holds its JSON (#data), and its
// figures have names and exact values (data-figure, data-value).
#pragma once

#include <string>

#include "stepcast/result/algorithms.h"
#include "stepcast/result/compare.h"
#include "stepcast/result/search.h"
#include "stepcast/result/trace.h"

namespace stepcast::report {

// The best strategy and its proof; time against memory and GPUs; the ranking with a breakdown of each step; why the
// runner-up is slower; the effect of other hardware; which strategies were not possible, and why.
std::string html(const result::Search& search);

// Search algorithms side by side: the forecast of each answer by its own cost model and by the engine.
std::string html(const result::Algorithms& algorithms);

// For each system that runs the job, a bar of its step time with interval and parts, and memory against capacity; for the
// others, the reason that they do not run it.
std::string html(const result::Comparison& comparison);

// Profiled ranks: steps with their parts, one step's streams over time, kinds, communication, kernels, and the forecast
// beside them.
std::string html(const result::TraceProfile& profile);

}  // namespace stepcast::report
