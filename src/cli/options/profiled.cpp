#include "profiled.h"

#include <fmt/format.h>

#include <algorithm>

#include "stepcast/calibrate/trace.h"

namespace stepcast::cli {

int profiled_stage(const result::TraceRank& rank, const job::Job& job) {
  const int stages = job.parallelism.pipeline;
  const std::int64_t stage = rank.rank < 0 || rank.world_size < stages
                                 ? 0
                                 : std::int64_t{rank.rank} * stages / rank.world_size;
  return static_cast<int>(std::min<std::int64_t>(stage, stages - 1));
}

std::string unlike_job(const result::TraceRank& rank, const job::Job& job) {
  const std::int64_t gpus = std::int64_t{job.cluster.ranks()};
  std::string out;
  if (rank.world_size > 0 && rank.world_size != gpus) {
    out = fmt::format("the profile is of {} ranks, the job has {} GPUs", rank.world_size, gpus);
  }
  if (!calibrate::may_be_of(rank, job)) {
    out += fmt::format("{}the profile is of {}, the job's device is {}", out.empty() ? "" : "; ",
                       rank.device, job.cluster.device.name);
  }
  return out;
}

calibrate::WorkVerdict work_verdict(const result::TraceRank& rank, const job::Job& job,
                                    const result::Report& report, int stage) {
  const auto work = calibrate::profiled_work(rank, job, report, stage);
  return work ? calibrate::judge_work(*work, job) : calibrate::WorkVerdict();
}

}  // namespace stepcast::cli
