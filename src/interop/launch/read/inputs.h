// Reads the files and arguments of a request into settings.
#pragma once

#include <vector>

#include "../options/rule.h"
#include "../options/setting.h"
#include "stepcast/interop/launch.h"

namespace stepcast::interop::launch {

// The settings of all inputs, of which a later one prevails: recipes in Python first, then texts,
// documents and lists of flags in their order; then shell scripts, as a command line overrides the
// documents that it names; lists of flags that are given behind a script; arguments NAME=VALUE.
// `doubts`: settings that a recipe may set. `remarks`: parts that were not
// evaluated.
std::vector<Setting> read_inputs(const LaunchRequest& request, const Reader& reader,
                                 std::vector<Setting>& doubts, std::vector<Fault>& remarks);

// The settings of a JSON, YAML or TOML file, and those of JSON in a text.
std::vector<Setting> settings_of_document(const std::string& input, const LaunchRequest& request);
std::vector<Setting> settings_in_json(const std::string& source, const std::string& name,
                                      const LaunchRequest& request);

}  // namespace stepcast::interop::launch
