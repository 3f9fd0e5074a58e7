// Puts every setting of a draft into exactly one list: by a rule into the job, or as meaningless,
// not modelled or unknown.
#pragma once

#include <vector>

#include "../options/draft.h"
#include "../options/rule.h"
#include "../options/setting.h"

namespace stepcast::interop::launch {

// Gives settings the names of their rules. Options of a command line get the section of a file
// (--fsdp_version is fsdp_config.fsdp_version in a file), or those of a file lose theirs; spellings
// of one option become one.
void add_sections(const Reader& reader, std::vector<Setting>& settings);

// Takes every setting that a later one of the same option overrides out of `settings`, and returns
// those: of each option the last setting counts, as in argparse, whatever its value. A later null
// takes a whole section away.
std::vector<LaunchOption> take_overridden(const Reader& reader, std::vector<Setting>& settings);

void classify(Draft& draft, const Reader& reader);

// Names what a recipe may set under conditions that are not known, unless it has no meaning for a
// forecast.
void remark_doubts(Draft& draft, const Reader& reader, const std::vector<Setting>& doubts);

}  // namespace stepcast::interop::launch
