// What a calibration file says of the logs behind it.
#pragma once

#include <string>
#include <vector>

#include "stepcast/result/calibration.h"

namespace stepcast::calibrate {

// Names of logs in a calibration: file names without folders and ending, letters, digits, dashes,
// underscores and dots, each file its own.
std::vector<std::string> log_names(const std::vector<std::string>& files);

// The keys `measured` and `left_out` of a calibration file.
std::string provenance(const std::vector<const result::CalibrationSeries*>& series);

}  // namespace stepcast::calibrate
