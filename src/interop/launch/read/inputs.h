// Reads the files and arguments of a request into settings.
#pragma once

#include <vector>

#include "../options/rule.h"
#include "../options/setting.h"
#include "stepcast/interop/launch.h"

namespace stepcast::interop::launch {

// The settings of all inputs: recipes in Python first, then texts, documents and lists of flags in
// their order, then shell scripts, and arguments NAME=VALUE last, since a later setting prevails.
// `doubts`: settings that a recipe may set. `remarks`: parts that were not
// evaluated.
std::vector<Setting> read_inputs(const LaunchRequest& request, const Reader& reader,
                                 std::vector<Setting>& doubts, std::vector<Fault>& remarks);

}  // namespace stepcast::interop::launch
