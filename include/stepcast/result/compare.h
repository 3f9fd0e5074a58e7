// One job under several training systems, and what the systems can do.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "stepcast/base/quantity.h"
#include "stepcast/job/job.h"
#include "stepcast/result/report.h"

namespace stepcast::result {

// A system's forecast of the job, or why there is none.
struct ComparedSystem {
  std::string name, generation;
  job::System::Kind kind = job::System::Kind::none;
  bool ran = false;
  std::string key, reason;                    // not ran: the job's key at fault and why
  std::string sharding, schedule, recompute;  // as the job and the system resolve them
  Estimate step_time, tokens_per_second_per_gpu, mfu, peak;
  double exposed = 0;  // communication that nothing hides: seconds, mean over stages
  double bubble_fraction = 0;
  Bytes capacity;
  bool fits = false;
};

struct Comparison {
  std::string title;                    // of the job: "llama-3-70b on 64 x dgx-h100"
  std::vector<ComparedSystem> systems;  // those that ran by step time, then the others by name
};

// A strategy of the survey's Table 3: data, sharded, tensor, pipeline, sequence, automatic.
struct SurveyMark {
  std::string strategy;
  bool simulated = false;
  std::optional<bool> survey;  // left out: not in its table
  std::string reason;          // not simulated: why
};

struct SystemSummary {
  std::string name, alias_of, generation;  // alias_of: another name of that system, or empty
  job::System::Kind kind = job::System::Kind::none;
  std::vector<SurveyMark> marks;
};

struct SystemDetails {
  SystemSummary summary;
  struct Default {
    std::string key, value, source, where;
  };
  std::vector<Default> defaults;
  std::vector<std::string> schedules;                       // empty: all
  std::vector<std::pair<std::string, std::string>> limits;  // feature (or several, joined by '+') and reason
};

}  // namespace stepcast::result
