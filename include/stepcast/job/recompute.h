// Modules of a layer that can be recomputed by themselves.
#pragma once

#include <string>

#include "stepcast/job/job.h"

namespace stepcast::job {

// What the model would need for `module` of `memory.recompute.modules` to be a part of it, in words; nullptr: it has the
// module.
const char* lacking(const Model& model, const std::string& module);

}  // namespace stepcast::job
