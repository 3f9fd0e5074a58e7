// The provenance of a calibration file: the logs that it was fitted to.
#pragma once

#include <string>
#include <vector>

#include "stepcast/result/calibration.h"

namespace stepcast::calibrate {

// Names of logs in a calibration: file names without folders and extension, made of letters,
// digits, dashes, underscores and dots, and different for each file.
std::vector<std::string> log_names(const std::vector<std::string>& files);

// The keys `measured` and `left_out` of a calibration file.
std::string provenance(const std::vector<const result::CalibrationSeries*>& series);

}  // namespace stepcast::calibrate
