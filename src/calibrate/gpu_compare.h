// Compares measured cases with the predictions of two sets of curves: those installed and the new
// ones.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gpu_samples.h"
#include "stepcast/cost/kernel_fit.h"
#include "stepcast/result/kernel_calibration.h"

namespace stepcast::calibrate {

// Fills comparisons, figures and layers. `files` are the new curves.
void compare(const std::vector<Measured>& cases, const job::Device& device,
             const std::vector<std::string>& libraries,
             const std::filesystem::path& calibration_dir, result::KernelCalibration& out);

}  // namespace stepcast::calibrate
