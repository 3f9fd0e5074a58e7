// What the parts of a job need of each other.
#pragma once

#include <string>

#include "stepcast/job/job.h"

namespace stepcast::job {

// What the model would need for `module` of `memory.recompute.modules` to be a part of it, in words; nullptr: it has the
// module.
const char* lacking(const Model& model, const std::string& module);

// The CUDA compute capability from which on a kernel runs; 0: any.
double least_compute_capability(AttentionKernel kernel);

// Whether this overlap cuts products along the gathered sequence, so that it needs sequence parallelism.
bool cuts_along_sequence(TensorOverlap overlap);

}  // namespace stepcast::job
