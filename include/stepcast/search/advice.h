// What to change in a job that does not fit: found by simulation.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stepcast/base/stop.h"
#include "stepcast/job/job.h"
#include "stepcast/result/report.h"

namespace stepcast::forecast {
class Forecaster;
}

namespace stepcast::search {

// Loads the job with more overrides ("memory.recompute=full"), as if the user had typed them. nullopt: the job is then
// refused.
using Loader = std::function<std::optional<job::Job>(const std::vector<std::string>& overrides)>;

struct AdviceOptions {
  int count = 5;               // pieces of advice at most
  int depth = 3;               // changes made together at most, where fewer do not help
  const Stop* stop = nullptr;  // once it is asked, advise() throws Stopped
  // Tasks of all its forecasts: some ten seconds. Counted and not timed, so that the advice does not depend on the machine.
  std::int64_t most_tasks = 40'000'000;
  std::function<void(int tried)> progress = {};  // called behind each forecast with their number so far
};

struct Advised {
  std::vector<result::Advice> advice;
  int untried = 0;  // changes and combinations left when the tasks were used up
};

// Changes with which `job` fits into memory, the shortest step time first. Pairs are tried only where no single change is
// enough, and triples only where no pair is; the keys of changes made together are separated by spaces. Empty: none of the
// changes tried is enough. `misfit` is the report of the job as it stands. No change alters what is trained: the global
// batch, number formats and the optimizer stay.
Advised advise(forecast::Forecaster& forecaster, const job::Job& job, const result::Report& misfit, const Loader& loader,
               const AdviceOptions& options = {});

// Puts the advice into the job's own report, and a note where there is none or where it stopped before all was tried.
void add_advice(forecast::Forecaster& forecaster, const job::Job& job, const Loader& loader, result::Report& report,
                const AdviceOptions& options = {});

// The single changes that advise() may try on a job, as overrides.
std::vector<std::vector<std::string>> changes(const job::Job& job, const result::Report& misfit);

}  // namespace stepcast::search
