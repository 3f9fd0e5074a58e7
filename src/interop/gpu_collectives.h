// Converts collectives measured by calibrate-gpu for `simulate calibrate nccl`.
#pragma once

#include <string_view>

#include "stepcast/interop/gpu_measurements.h"
#include "stepcast/interop/nccl_log.h"

namespace stepcast::interop {

// Whether a text is JSON lines and not a table.
bool is_json_lines(std::string_view text);

// One run for each session, placement, algorithm and protocol. Throws InputError where there is no
// collective.
CollectiveLog collectives_of(const GpuMeasurements& all);

}  // namespace stepcast::interop
