// Reads the case of each kind of measurement record.
#pragma once

#include <string_view>

#include "gpu_record.h"
#include "stepcast/interop/gpu_measurements.h"

namespace stepcast::interop {

using CaseReader = GpuCase (*)(Record&);

// The reader of a record; nullptr: it is not a record of a measurement.
CaseReader case_reader(std::string_view record);

}  // namespace stepcast::interop
