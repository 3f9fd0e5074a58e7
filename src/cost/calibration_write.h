// Text of a calibration file from fitted curves: what calibration_file.h reads.
#pragma once

#include <string>
#include <vector>

#include "calibration_file.h"
#include "gemm_fit.h"

namespace stepcast::cost {

struct FileHead {
  std::string kind;  // "gemm"
  std::vector<std::string> devices;
  std::string library;
  std::string source;
};

std::string head_text(const FileHead& head);

struct GemmNotes {
  std::string layout_source;
  std::string sustained_source;
  std::string grouped_source;
};
std::string gemm_text(const std::string& dtype, const GemmCurve& curve, const SizeClasses& held_out,
                      const GemmNotes& notes);

}  // namespace stepcast::cost
