// simulate search --algorithm: several searches side by side.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../output/outputs.h"
#include "stepcast/automatic/algorithms.h"

namespace stepcast::cli {

struct AlgorithmOptions {
  std::vector<std::string> names;
  std::string seed;
  std::string degrees;             // of ahp
  std::string schedule_file;       // likewise
  std::vector<std::string> fixed;  // overrides that the user gave
  std::string constraints;
};

// Fills and finishes --json and --html in `outputs`. Returns the overrides of the best answer that
// fits, the first among equals; nullopt: no algorithm found one.
std::optional<std::vector<std::string>> compare_algorithms(
    const AlgorithmOptions& given, const search::Request& request, const job::Job& base,
    const search::JobLoader& loader, const std::string& title, Outputs& outputs);

}  // namespace stepcast::cli
