// What to change in a job that does not fit: found by simulation.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/forecast/forecaster.h"
#include "stepcast/job/job.h"
#include "stepcast/result/report.h"

namespace stepcast::search {

// The job with more overrides ("memory.recompute=full"), as if the user had typed them; nullopt: it is refused.
using Loader = std::function<std::optional<job::Job>(const std::vector<std::string>& overrides)>;

struct AdviceOptions {
  int most = 5;   // pieces of advice
  int depth = 3;  // changes made together at most, where fewer do not help
};

// Changes under which `job` fits, the cheapest in step time first. Where single ones do it no pair is tried, and so on: of
// several changes, the keys are separated by spaces. Empty: none of those tried is enough. `misfit` is the job's own report.
// None of them changes what is trained: neither the global batch, nor number formats, nor the optimizer.
std::vector<result::Advice> advise(forecast::Forecaster& forecaster, const job::Job& job, const result::Report& misfit,
                                   const Loader& loader, const AdviceOptions& options = {});

// What a report notes where there is none.
inline constexpr const char* kNoAdvice =
    "no recomputation, offloading, sharding, smaller micro-batch or larger grid that was tried makes it fit";

// The single changes that may be tried of a job, as overrides: what advise() draws on.
std::vector<std::vector<std::string>> changes(const job::Job& job, const result::Report& misfit);

}  // namespace stepcast::search
