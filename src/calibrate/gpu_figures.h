// Measured values that are not curves: launch times, the largest copies, and the slow-down by
// overlap and in long runs.
#pragma once

#include <vector>

#include "gpu_samples.h"
#include "stepcast/result/kernel_calibration.h"

namespace stepcast::calibrate {

std::vector<result::KernelFigure> figures(const std::vector<Measured>& cases);

}  // namespace stepcast::calibrate
