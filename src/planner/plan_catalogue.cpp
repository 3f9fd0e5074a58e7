#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <stdexcept>

#include "plan_cluster.h"
#include "stepcast/base/calendar.h"
#include "stepcast/base/number.h"
#include "stepcast/base/threads.h"
#include "stepcast/input/input.h"
#include "stepcast/planner/plan.h"

namespace stepcast::planner {
namespace {

using result::PlannedCluster;

// What a shortfall is relative to: the limit itself, or the memory of a GPU.
double size_of(result::PlanLimit limit, const result::PlanLimits& limits, const PlannedCluster& c) {
  switch (limit) {
    case result::PlanLimit::deadline:
      return limits.days;
    case result::PlanLimit::budget:
      return limits.budget;
    case result::PlanLimit::power:
      return limits.watts;
    case result::PlanLimit::memory:
    case result::PlanLimit::strategy:
      break;
  }
  return static_cast<double>(c.capacity.count());
}

// Clusters that meet the limits come first, the best in front; then those that miss them, by how
// little; then those on which nothing runs.
bool before(const PlannedCluster& a, const PlannedCluster& b, const result::PlanLimits& limits) {
  const auto misses = [&](const PlannedCluster& c) {
    double out = 0;
    for (const result::Shortfall& s : c.shortfalls) {
      const double limit = size_of(s.limit, limits, c);
      out = std::max(out, limit > 0 ? s.by / limit : 0);
    }
    return out;
  };
  const auto key = [&](const PlannedCluster& c) {
    const double miss = misses(c);
    return std::tuple(!c.meets, !c.simulated, !c.fits, miss, c.objective, c.name);
  };
  return key(a) < key(b);
}

}  // namespace

Seconds parse_duration(const std::string& text) {
  const std::size_t length = number_length(text);
  const std::size_t unit = text.find_first_not_of(" \t", length);
  if (length > 0 && unit != std::string::npos && text.substr(unit) == "d") {
    const double days = parse_number(std::string_view(text).substr(0, length));
    if (!(days >= 0)) {
      throw std::invalid_argument(
          fmt::format("'{}' is negative; expected a time such as '60 d'", text));
    }
    return Seconds(days * kDay);
  }
  return Seconds(to_seconds(parse_time(text)));
}

result::Plan plan(const PlanRequest& request, const std::filesystem::path& data_directory) {
  const job::Job job = input::load(request.config, request.overrides).job;
  // Its faults belong to the user, not to a cluster.
  search::check_values(search::read_space(request.space, job));
  const std::vector<Offer>& offers = request.catalogue.offers;
  result::Plan out;
  out.title = fmt::format("{}, {} sequences of {} tokens a step", job.model.name,
                          job.workload.global_batch, job.workload.sequence_length);
  out.objective = to_string(request.objective);
  out.catalogue = request.catalogue.name;
  out.currency = request.catalogue.currency;
  out.operations = request.operations != nullptr ? request.operations->name : "";
  out.start = request.start;
  out.tokens = request.tokens;
  out.limits = request.limits;
  out.clusters.resize(offers.size());

  // Offers of one kind of cluster, by places in the catalogue: what is simulated once holds for
  // all.
  std::map<std::string, std::vector<std::size_t>> by_kind;
  for (std::size_t n = 0; n < offers.size(); ++n) {
    by_kind[kind_of(request, offers[n])].push_back(n);
  }
  std::vector<std::vector<std::size_t>> kinds;
  for (auto& [kind, places] : by_kind) {
    kinds.push_back(std::move(places));
  }
  std::sort(kinds.begin(), kinds.end());

  std::atomic<std::size_t> next{0};
  std::mutex telling;
  int done = 0;
  std::vector<std::exception_ptr> errors(std::max<std::size_t>(1, kinds.size()));
  const auto tell = [&](const PlannedCluster& cluster) {
    const std::lock_guard lock(telling);
    ++done;
    if (request.progress) {
      request.progress(cluster, done, static_cast<int>(offers.size()));
    }
  };
  const auto work_with = [&](forecast::Forecaster& forecaster) {
    for (std::size_t k = next++; k < kinds.size(); k = next++) {
      try {
        Strategies strategies(request, offers[kinds[k].front()], forecaster, data_directory);
        for (const std::size_t n : kinds[k]) {
          out.clusters[n] = plan_cluster(request, offers[n], strategies);
          tell(out.clusters[n]);
        }
      } catch (...) {
        errors[k] = std::current_exception();
      }
    }
  };
  // A fault in the data files is every thread's.
  const auto work = [&] {
    try {
      forecast::Forecaster forecaster(data_directory);
      work_with(forecaster);
    } catch (...) {
      const std::lock_guard lock(telling);
      errors.front() = std::current_exception();
    }
  };
  on_threads(std::min(threads_of(request.threads), kinds.size()),
             [&](const std::atomic<bool>&) { work(); });
  for (const std::exception_ptr& error : errors) {
    if (error) {
      std::rethrow_exception(error);
    }
  }
  std::stable_sort(out.clusters.begin(), out.clusters.end(),
                   [&](const PlannedCluster& a, const PlannedCluster& b) {
                     return before(a, b, request.limits);
                   });
  return out;
}

}  // namespace stepcast::planner
