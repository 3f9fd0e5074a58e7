// Puts every setting of a draft into exactly one list: by a rule into the job, or as meaningless,
// not modelled or unknown.
#pragma once

#include <vector>

#include "../options/draft.h"
#include "../options/rule.h"
#include "../options/setting.h"

namespace stepcast::interop::launch {

// Adds the section of a file to options of a command line: --fsdp_version is
// fsdp_config.fsdp_version in a file.
void add_sections(const Reader& reader, std::vector<Setting>& settings);

void classify(Draft& draft, const Reader& reader);

// Names what a recipe may set under conditions that are not known, unless it has no meaning for a
// forecast.
void remark_doubts(Draft& draft, const Reader& reader, const std::vector<Setting>& doubts);

}  // namespace stepcast::interop::launch
