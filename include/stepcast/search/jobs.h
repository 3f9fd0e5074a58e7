// Jobs from a job file and overrides, for those who load thousands of them.
#pragma once

#include <string>
#include <vector>

#include "stepcast/config/config.h"
#include "stepcast/search/search.h"

namespace stepcast::search {

// Loads `config` (a path, or a name in configs/) with `overrides` and those that it is asked for behind them.
JobLoader jobs_of(const std::string& config, const std::vector<std::string>& overrides);

// The job that a space is read for: as `input::load` reads it; where that refuses it, with the first of the space's
// choices, the fewest first, that repair it. `space`: the space as read for a job. Throws the job's own faults where none
// does.
config::Loaded base_of(const std::string& config, const std::vector<std::string>& overrides,
                       const std::function<Space(const job::Job&)>& space);

}  // namespace stepcast::search
