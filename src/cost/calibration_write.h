// Writes fitted curves as the text of a calibration file, which calibration_file.h reads.
#pragma once

#include <string>
#include <vector>

#include "attention_fit.h"
#include "calibration_file.h"
#include "gemm_fit.h"

namespace stepcast::cost {

struct FileHead {
  std::string kind;  // "gemm"
  std::vector<std::string> devices;
  std::string library;
  std::string source;
  std::string comment =
      "Written by fit_kernels from the points beside it; edit calibration/sources.yaml instead.";
};

std::string head_text(const FileHead& head);

struct GemmNotes {
  std::string layout_source;
  std::string sustained_source;
  std::string grouped_source;
  std::string other_library_source{};
  std::string casts_source = {};
  std::string training_source = {};
};
std::string gemm_text(const std::string& dtype, const GemmCurve& curve, const SizeClasses& held_out,
                      const GemmNotes& notes);

std::string grouped_text(const std::string& dtype, const GroupedCurve& curve,
                         const SizeClass& held_out);

// `held_out` without points is not written: the curve comes from published rates and not from a
// fit.
std::string attention_text(const std::string& kernel, const AttentionCurve& curve,
                           const SizeClass& held_out, const std::string& source,
                           const SizeClass& backward_held_out = {});
std::string memory_text(const std::string& op, const MemoryCurve& curve, const std::string& source);
std::string copy_text(CopyDirection direction, bool pinned, const CopyCurve& curve,
                      const SizeClass& held_out, const std::string& source);
// `key`: arithmetic, memory or collective.
std::string coefficient_text(const std::string& key, double value, double residual, int points,
                             const std::string& source);
std::string launch_text(const LaunchCurve& curve);

// The text as a YAML string in double quotes.
std::string quoted(const std::string& text);

}  // namespace stepcast::cost
