// What was measured and is no curve: launches, the largest copies, what overlap and long runs cost.
#pragma once

#include <vector>

#include "gpu_samples.h"
#include "stepcast/result/kernel_calibration.h"

namespace stepcast::calibrate {

std::vector<result::KernelFigure> figures(const std::vector<Measured>& cases);

}  // namespace stepcast::calibrate
