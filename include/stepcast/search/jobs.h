// Jobs from a job file and overrides, for those who load thousands of them.
#pragma once

#include <string>
#include <vector>

#include "stepcast/search/search.h"

namespace stepcast::search {

// Loads `config` (a path, or a name in configs/) with `overrides` and those that it is asked for behind them.
JobLoader jobs_of(const std::string& config, const std::vector<std::string>& overrides);

}  // namespace stepcast::search
