// Whole layers by curves: predicted, never fitted.
#pragma once

#include "gpu_samples.h"
#include "stepcast/cost/kernels.h"
#include "stepcast/result/kernel_calibration.h"

namespace stepcast::calibrate {

// A model that configs lack, or that cannot be cut so, is told in `why`.
result::KernelLayer layer_of(const Measured& measured, const interop::LayerCase& layer,
                             const cost::Kernels& before, const cost::Kernels& after);

}  // namespace stepcast::calibrate
