// What each record of a measurement says was measured.
#pragma once

#include <string_view>

#include "gpu_record.h"
#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::interop {

using CaseReader = GpuCase (*)(Record&);

// nullptr: no record of a measurement.
CaseReader case_reader(std::string_view record);

}  // namespace stepcast::interop
