// Each case of a measurement file once.
#pragma once

#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::interop {

// Of a case that stands twice the later one counts; all go where they contradict each other; a
// skipped one gives way to a time. What goes is told by a warning; warnings end in order of lines.
void keep_one_each(GpuMeasurements& all);

}  // namespace stepcast::interop
