// Files that options name, such as DeepSpeed's JSON in a script.
#pragma once

#include <vector>

#include "../options/rule.h"
#include "../options/setting.h"
#include "stepcast/interop/launch.h"

namespace stepcast::interop::launch {

// Puts the settings of files that options name and that are not among the inputs ahead of
// `settings`, which override them. A relative path is looked for in the folder of the file that
// names it and those above, since scripts run from there, and then in the working directory. Throws
// InputError where none is found.
void add_named_files(const LaunchRequest& request, const Reader& reader,
                     std::vector<Setting>& settings);

}  // namespace stepcast::interop::launch
