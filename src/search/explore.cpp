#include "stepcast/search/explore.h"

#include <limits>

#include "explain.h"
#include "runner.h"

namespace stepcast::search {

Explored explore(const Request& request, const JobLoader& loader,
                 const std::filesystem::path& data_directory, const std::string& stage) {
  Runner runner(request, loader, data_directory);
  const Enumerated& all = runner.all();
  double left = 0;
  const result::Strategy* best = runner.best_within(all.capacity, left, stage);
  Explored out;
  out.candidates = all.counts.candidates;
  runner.complete(std::numeric_limits<double>::infinity(), std::numeric_limits<std::size_t>::max());
  for (const auto& [strategy, why, peak] : runner.taken()) {
    ++out.evaluated;
    if (strategy != nullptr) {
      out.simulated.push_back(*strategy);
    }
  }
  out.stopped = runner.stopped();
  if (best != nullptr) {
    out.best = *best;
    out.gap = 1 - left / best->objective;
  } else {
    out.why_none = nothing_fits(all.counts, all.refusals, all.least_memory, all.capacity);
  }
  return out;
}

}  // namespace stepcast::search
