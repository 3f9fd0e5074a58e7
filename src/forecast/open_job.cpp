#include "stepcast/forecast/open_job.h"

#include <algorithm>

namespace stepcast::forecast {
namespace {

bool fits(Forecaster& forecaster, const job::Job& job) {
  Options options;
  options.samples = -1;
  const auto outcome = forecaster.forecast(job, options);
  const auto* report = std::get_if<result::Report>(&outcome);
  return report != nullptr && report->fits;
}

constexpr const char* kNote =
    "memory.recompute is assumed, and the job does not fit with it as it is: forecast with full "
    "recomputation";

}  // namespace

Settled settled(Forecaster& forecaster, const job::Job& job) {
  const auto& assumed = job.assumed;
  if (std::find(assumed.begin(), assumed.end(), "memory.recompute") == assumed.end() ||
      job.memory.recompute.kind == RecomputeKind::full || fits(forecaster, job)) {
    return {job, {}};
  }
  job::Job more = job;
  more.memory.recompute = {.kind = RecomputeKind::full};
  if (fits(forecaster, more)) {
    return {std::move(more), kNote};
  }
  more.memory.offload.activations.to = OffloadTarget::cpu;
  if (fits(forecaster, more)) {
    return {std::move(more), std::string(kNote) + " whose inputs are offloaded to the host"};
  }
  return {job, {}};
}

}  // namespace stepcast::forecast
