#include "explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "objective.h"

namespace stepcast::search {
namespace {

using result::Strategy;

// Overrides of one that the other has differently.
std::vector<std::string> differing(const Strategy& of, const Strategy& from) {
  std::vector<std::string> out;
  std::copy_if(of.overrides.begin(), of.overrides.end(), std::back_inserter(out),
               [&](const std::string& text) {
                 return std::find(from.overrides.begin(), from.overrides.end(), text) ==
                        from.overrides.end();
               });
  return out;
}

struct Part {
  const char* name;
  Time Strategy::*time;
};
constexpr Part kParts[] = {{"compute", &Strategy::compute},
                           {"recomputation", &Strategy::recompute},
                           {"exposed communication", &Strategy::exposed},
                           {"bubble", &Strategy::bubble},
                           {"host, optimizer and stalls", &Strategy::other}};

}  // namespace

Strategy strategy_of(const result::Report& report, const job::Job& job,
                     const std::vector<std::string>& overrides, Objective objective,
                     bool exact_memory) {
  Strategy out;
  out.overrides = overrides;
  out.step_time = report.step_time;
  out.peak = report.peak;
  if (!exact_memory) {  // tensors without the allocator's waste: what every peak is above
    double tensors = 0;
    for (const auto& stage : report.memory) {
      tensors = std::max(tensors, static_cast<double>(stage.allocated.count()));
    }
    out.peak.low = tensors;
  }
  out.capacity = report.capacity;
  out.mfu = report.mfu.value;
  out.gpus = job.cluster.ranks();
  out.bubble_fraction = report.bubble_fraction;
  out.fits = report.fits;
  out.objective = report.step_time.value * per_second(objective, job.cluster);
  const auto stages = static_cast<std::int64_t>(report.breakdown.size());
  for (const auto& s : report.breakdown) {
    out.compute += s.compute + s.slowdown;
    out.recompute += s.recompute;
    out.exposed += s.tensor + s.pipeline + s.data + s.context + s.expert + s.offload;
    out.bubble += s.bubble;
  }
  if (stages > 0) {
    for (Time* t : {&out.compute, &out.recompute, &out.exposed, &out.bubble}) {
      *t /= stages;
    }
  }
  out.other =
      seconds(report.step_time.value) - out.compute - out.recompute - out.exposed - out.bubble;
  return out;
}

std::string nothing_fits(const result::SearchCounts& counts,
                         const std::vector<std::pair<std::string, std::int64_t>>& refusals,
                         double least_memory, double capacity) {
  const double gib = 1.0 / (1 << 30);
  if (counts.memory_pruned > 0) {
    return fmt::format(
        "memory: the smallest needs at least {:.1f} GiB of each GPU, which has {:.1f} GiB: {:.1f} "
        "GiB too much",
        least_memory * gib, capacity * gib, (least_memory - capacity) * gib);
  }
  if (!refusals.empty()) {
    return fmt::format("every combination is refused, most by {}", refusals.front().first);
  }
  return "sizes: none of the combinations divides the ranks, the layers and the global batch";
}

void explain(result::Search& search, const JobLoader& loader, forecast::Forecaster& forecaster,
             Objective objective) {
  const Strategy& best = search.best;
  const auto second =
      std::find_if(search.ranking.begin(), search.ranking.end(),
                   [&](const Strategy& s) { return s.overrides != best.overrides; });
  if (second != search.ranking.end()) {
    const Part* most =
        &*std::max_element(std::begin(kParts), std::end(kParts), [&](const Part& a, const Part& b) {
          return (*second).*a.time - best.*a.time < (*second).*b.time - best.*b.time;
        });
    search.why = fmt::format(
        "the runner-up ({}) is {:.2f} % slower: {:+.1f} ms of {} are the most of it",
        fmt::join(differing(*second, best), " "), 100 * (second->objective / best.objective - 1),
        to_seconds((*second).*most->time - best.*most->time) * 1e3, most->name);
  }
  auto loaded = loader(best.overrides);
  const auto* job = std::get_if<job::Job>(&loaded);
  if (job == nullptr) {
    return;
  }
  constexpr double kFaster = 2;
  const auto ask = [&](const char* what, const job::Job& other) {
    const auto outcome = forecaster.forecast(other, {.allocator = forecast::Allocator::rule});
    if (const auto* report = std::get_if<result::Report>(&outcome)) {
      search.what_if.push_back(
          {what, report->step_time.value * per_second(objective, other.cluster)});
    }
  };
  if (job->cluster.nodes > 1 && job->cluster.node.nic.count() > 0) {
    job::Job faster = *job;
    faster.cluster.node.nic = faster.cluster.node.nic * kFaster;
    ask("twice the network's bandwidth, the same strategy", faster);
  }
  if (job->cluster.device.nvlink.count() > 0) {
    job::Job faster = *job;
    faster.cluster.device.nvlink = faster.cluster.device.nvlink * kFaster;
    ask("twice NVLink's bandwidth, the same strategy", faster);
  }
}

}  // namespace stepcast::search
