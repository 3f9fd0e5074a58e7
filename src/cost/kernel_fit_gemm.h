// Fits the GEMM curve of one format for fit_kernels: law, layouts, groups, level of long runs.
#pragma once

#include <string>
#include <vector>

#include "gemm_fit.h"
#include "stepcast/cost/kernel_fit.h"

namespace stepcast::cost {

struct GemmCurveFit {
  std::string yaml;  // the curve as in calibration files
  std::vector<FitRow> rows;
};

// `name`: name of the curve in the rows, "gemm bf16". Throws std::invalid_argument where the
// samples do not determine the curve.
GemmCurveFit fit_gemm_curve(const job::Device& device, job::DType dtype,
                            const std::vector<GemmSample>& samples, const std::string& name);

FitRow row_of(std::string curve, std::string size, int points, const SizeClass& held_out,
              int outliers = 0);

}  // namespace stepcast::cost
