// One job under several training systems, and the features of the systems.
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

// The forecast of the job under one system, or the reason that there is none.
struct ComparedSystem {
  std::string name, generation;
  job::System::Kind kind = job::System::Kind::none;
  bool ran = false;
  std::string key, reason;                    // if it did not run: the key of the job at fault, and why
  std::string sharding, schedule, recompute;  // as resolved from the job and the defaults of the system
  Estimate step_time, tokens_per_second_per_gpu, mfu, peak;
  double exposed = 0;  // exposed communication: seconds, mean over stages
  double bubble_fraction = 0;
  Bytes capacity;
  Fit fits;
};

struct Comparison {
  std::string title;                    // of the job: "llama-3-70b on 64 x dgx-h100"
  std::vector<ComparedSystem> systems;  // systems that ran, by step time; then the others, by name
};

// A strategy of the survey's Table 3: data, sharded, tensor, pipeline, sequence, automatic.
struct SurveyMark {
  std::string strategy;
  bool simulated = false;
  std::optional<bool> survey;  // none: the survey's table does not list the system
  std::string reason;          // why it is not simulated
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
  std::vector<std::string> schedules;  // of pipelines; empty: all
  std::vector<std::pair<std::string, std::string>>
      limits;  // feature (or features joined by '+') that is refused, and the reason
};

}  // namespace stepcast::result
