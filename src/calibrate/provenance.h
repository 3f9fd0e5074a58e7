// What a calibration file says of the logs behind it.
#pragma once

#include <string>
#include <vector>

#include "stepcast/result/calibration.h"

namespace stepcast::calibrate {

// A log's file name without its folders and ending: no machine's paths in a calibration.
std::string log_name(const std::string& file);

// The keys `logs` and `left_out` of a calibration file.
std::string provenance(const std::vector<const result::CalibrationSeries*>& series);

}  // namespace stepcast::calibrate
