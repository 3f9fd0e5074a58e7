// Habits of a training system's `family`, for which there are no keys.
#pragma once

#include <string>
#include <vector>

#include "stepcast/job/job.h"

namespace stepcast::config {

// In the order of the table.
std::vector<std::string> family_names();
// `family`: one of them.
job::Habits habits_of(const std::string& family);

}  // namespace stepcast::config
