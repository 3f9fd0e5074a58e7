// From repetitions to the figures that are stored.
#pragma once

#include <vector>

#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::harness {

// Throws std::runtime_error where a sample is not a positive number, or none was taken.
interop::Timing summarize(std::vector<double> seconds);

// Repetitions so far apart that the median is doubtful: p90 more than 1.25 times p10.
bool is_wide(const interop::Timing& time);

}  // namespace stepcast::harness
