// Loading a job file many times with different overrides.
#pragma once

#include <string>
#include <vector>

#include "stepcast/config/config.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

// A loader of `config` (a path, or a name in configs/). It applies `overrides` first and then those of each call.
JobLoader jobs_of(const std::string& config, const std::vector<std::string>& overrides);

// All that refuses that job.
JobReasons reasons_of(const std::string& config, const std::vector<std::string>& overrides);

// The job for which a space is read: `config` as input::load reads it. If that is refused, choices of the space are added,
// as few as possible, until the job is valid. `space` reads the space for a job. Throws the job's own faults where no
// choices repair it.
config::Loaded base_of(const std::string& config, const std::vector<std::string>& overrides,
                       const std::function<Space(const job::Job&)>& space);

}  // namespace stepcast::search
