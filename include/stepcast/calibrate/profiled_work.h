// Whether a profile is of a job's model: how much work its products are.
#pragma once

#include <optional>
#include <string>

#include "stepcast/job/job.h"
#include "stepcast/result/report.h"
#include "stepcast/result/trace.h"

namespace stepcast::calibrate {

struct ProfiledWork {
  double measured = 0;     // FLOPs of a step's products on the profiled rank, by their recorded shapes
  double least = 0;        // the job's: without recomputation and without products of experts, whose shapes are not recorded
  double most = 0;         // with both
  double with_hidden = 0;  // share of `measured` in products one of whose sizes is the model's hidden size
};

// Nothing where the profile states no shapes of most of its products' time, or the job has no such stage. `report`: the
// job's forecast, with its trace.
std::optional<ProfiledWork> profiled_work(const result::TraceRank& rank, const job::Job& job, const result::Report& report,
                                          int stage);

// What follows from it, in words; "": nothing to say.
struct WorkVerdict {
  std::string refused;  // the profile is of other work: no comparison with this job says anything
  std::string note;
};
WorkVerdict judge_work(const ProfiledWork& work, const job::Job& job);

}  // namespace stepcast::calibrate
