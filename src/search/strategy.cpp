#include "stepcast/search/strategy.h"

#include <algorithm>

#include "stepcast/search/objective.h"

namespace stepcast::search {

// The tensors, with what lies outside the allocator but without its waste, are a lower bound of the
// peak.
result::Estimate peak_by_rule(const result::Report& report) {
  result::Estimate out = report.peak;
  double least = 0;
  for (const auto& stage : report.memory) {
    const Bytes outside = stage.process - stage.reserved;
    least = std::max(least, static_cast<double>((stage.allocated + outside).count()));
  }
  out.low = least;
  return out;
}

result::Strategy strategy_of(const result::Report& report, const job::Job& job,
                             const std::vector<std::string>& overrides, Objective objective,
                             bool exact_memory) {
  result::Strategy out;
  out.overrides = overrides;
  out.step_time = report.step_time;
  out.peak = exact_memory ? report.peak : peak_by_rule(report);
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

}  // namespace stepcast::search
