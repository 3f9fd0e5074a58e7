// Keeps each case of a measurement file once.
#pragma once

#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::interop {

// Of a case that occurs twice the later one is kept, but none where they contradict each other; a
// measured case is preferred to a skipped one. What is removed is reported by a warning; the
// warnings are sorted by line.
void keep_one_each(GpuMeasurements& all);

}  // namespace stepcast::interop
