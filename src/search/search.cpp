#include "stepcast/search/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "explain.h"
#include "runner.h"
#include "stepcast/search/objective.h"

namespace stepcast::search {
namespace {

using result::Strategy;

// Names the limit that no strategy meets, and by how much.
std::string nearest_of(const Runner& runner,
                       const std::vector<std::pair<std::string, std::int64_t>>& refusals) {
  const Enumerated& all = runner.all();
  const double gib = 1.0 / (1 << 30);
  std::optional<double> smallest;
  for (const Runner::Taken& one : runner.taken()) {
    if (one.why == nullptr && (!smallest || one.peak < *smallest)) {
      smallest = one.peak;
    }
  }
  if (smallest) {
    return fmt::format(
        "memory: the smallest needs {:.1f} GiB of each GPU, which has {:.1f} GiB: {:.1f} GiB too "
        "much",
        *smallest * gib, all.capacity * gib, (*smallest - all.capacity) * gib);
  }
  return nothing_fits(all.counts, refusals, all.least_memory, all.capacity);
}

// Finds the fastest strategies for fractions of the memory, and for more memory than there is.
void look_around(Runner& runner, const Request& request, double capacity, result::Search& out) {
  for (const double share : request.front) {
    double unused = 0;
    const auto stage = fmt::format("best of {:.0f} % of the memory", 100 * share);
    if (const Strategy* s = runner.best_within(share * capacity, unused, stage)) {
      if (out.front.empty() || s->objective < out.front.back().best.objective) {
        out.front.push_back({share * capacity, *s});
      }
    }
  }
  if (out.front.empty() || out.best.objective < out.front.back().best.objective) {
    out.front.push_back({capacity, out.best});
  }
  double unused = 0;
  const auto stage = fmt::format("best of {:.0f} % of the memory", 100 * kMoreMemory);
  const Strategy* more = runner.best_within(kMoreMemory * capacity, unused, stage);
  if (more != nullptr && !runner.stopped()) {
    out.what_if.push_back({fmt::format("{:.0f} % more memory on each GPU", 100 * kMoreMemory - 100),
                           more->objective});
  }
}

// At the time limit, the job as given may be the answer even if it is not in the space.
void rather_stated(Runner& runner, double left, result::Search& out) {
  const Evaluation* stated = runner.stated();
  if (stated != nullptr && stated->exact && stated->exact->fits &&
      (!out.found || stated->exact->objective < out.best.objective)) {
    out.found = true;
    out.best = *stated->exact;
    out.gap = std::max(0.0, 1 - left / out.best.objective);
  }
}

}  // namespace

result::Search search(const Request& request, const JobLoader& loader,
                      const std::filesystem::path& data_directory) {
  Runner runner(request, loader, data_directory);
  result::Search out;
  out.objective = to_string(request.objective);
  const double capacity = runner.all().capacity;
  double left = 0;
  const Strategy* best = runner.best_within(capacity, left, "best");
  if (best != nullptr) {
    out.found = true;
    out.best = *best;
    out.gap = std::max(0.0, 1 - left / best->objective);
    if (!request.best_only) {
      look_around(runner, request, capacity, out);
    }
  }
  if (runner.stopped()) {
    rather_stated(runner, left, out);
  }
  runner.complete(capacity, static_cast<std::size_t>(std::max(0, request.ranking)));
  std::map<std::string, std::int64_t> refused(runner.all().refusals.begin(),
                                              runner.all().refusals.end());
  out.counts = runner.all().counts;
  for (const auto& [strategy, why, peak] : runner.taken()) {
    if (why != nullptr) {
      ++out.counts.impossible;
      ++refused[fmt::format("{}: {}", why->key, why->reason)];
      continue;
    }
    ++out.counts.simulated;
    const bool fits = peak <= capacity;
    out.counts.misfit += fits ? 0 : 1;
    if (fits && strategy != nullptr) {
      out.ranking.push_back(*strategy);
    }
  }
  out.counts.memory_pruned += runner.too_large(
      capacity, out.found ? out.best.objective : std::numeric_limits<double>::infinity());
  out.counts.time_pruned = out.counts.candidates - out.counts.impossible - out.counts.alike -
                           out.counts.memory_pruned - out.counts.simulated;
  std::stable_sort(out.ranking.begin(), out.ranking.end(),
                   [](const Strategy& a, const Strategy& b) { return a.objective < b.objective; });
  if (static_cast<int>(out.ranking.size()) > request.ranking) {
    out.ranking.resize(static_cast<std::size_t>(request.ranking));
  }
  out.refusals.assign(refused.begin(), refused.end());
  std::stable_sort(out.refusals.begin(), out.refusals.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  if (out.found && !request.best_only) {
    explain(out, runner.stated());
    ask_network(out, loader, runner.forecaster(), request.objective, runner.stop());
  } else if (!out.found) {
    out.nearest = runner.stopped() ? "time: no strategy that fits was found before the time limit"
                                   : nearest_of(runner, out.refusals);
  }
  out.stopped = runner.stopped();
  runner.finish(out.counts);
  return out;
}

}  // namespace stepcast::search
