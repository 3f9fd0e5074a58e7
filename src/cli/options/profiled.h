// A profiled rank and the job that it is compared with.
#pragma once

#include <string>

#include "stepcast/calibrate/profiled_work.h"
#include "stepcast/job/job.h"
#include "stepcast/result/trace.h"
#include "stepcast/trace/profile.h"

namespace stepcast::cli {

// The pipeline stage of a profiled rank, where pipeline stages are the outermost groups of ranks.
int profiled_stage(const result::TraceRank& rank, const job::Job& job);

// That the profile is of another number of ranks, or of another device; "": it is neither, or does
// not say.
std::string unlike_job(const result::TraceRank& rank, const job::Job& job);

// Whether its products are the work of the job.
calibrate::WorkVerdict work_verdict(const result::TraceRank& rank, const job::Job& job,
                                    const result::Report& report, int stage);

}  // namespace stepcast::cli
