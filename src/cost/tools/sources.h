// Shared by the parts of fit_kernels: reading sources.yaml and writing the files that it names.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../gemm_fit.h"
#include "stepcast/job/job.h"
#include "stepcast/text/document.h"
#include "stepcast/text/map.h"

namespace stepcast::tools {

namespace fs = std::filesystem;

using text::need;

inline std::string text_or(const text::Value& map, std::string_view key,
                           const std::string& otherwise) {
  const text::Value* v = map.find(key);
  return v == nullptr ? otherwise : text::to_string(*v);
}

inline double number_or(const text::Value& map, std::string_view key, double otherwise) {
  const text::Value* v = map.find(key);
  return v == nullptr ? otherwise : text::to_number(*v);
}

inline std::vector<std::string> strings(const text::Value& list) {
  std::vector<std::string> out;
  out.reserve(list.items.size());
  for (const auto& item : list.items) {
    out.push_back(text::to_string(item));
  }
  return out;
}

inline cost::ElementBytes element_bytes(job::DType t) {
  const double in = t == job::DType::nvfp4   ? 0.5625
                    : t == job::DType::mxfp4 ? 0.53125
                                             : job::bytes_per_element(t);
  return {in, std::max(2.0, job::bytes_per_element(t))};
}

inline void write(const fs::path& file, const std::string& content, bool check) {
  if (check) {
    return;
  }
  std::ofstream out(file, std::ios::binary);
  out << content;
  if (!out) {
    throw std::runtime_error("cannot write " + file.string());
  }
}

}  // namespace stepcast::tools
