// Megatron-LM's pipeline layout strings.
#pragma once

#include <string_view>
#include <variant>
#include <vector>

#include "stepcast/base/diagnostics.h"

namespace stepcast::strategy {

// What one virtual stage holds.
struct StageContent {
  int layers = 0;       // t
  int predictions = 0;  // m: multi-token prediction layers
  bool embedding = false;
  bool head = false;
};

// "Et*3|(tt|)*29,m|L" (--pipeline-model-parallel-layout,
// core/transformer/pipeline_parallel_layer_layout.py): '|' ends a stage, '*n' repeats the letter or
// group before it, commas are for the eye.
std::variant<std::vector<StageContent>, Infeasible> parse_layout(std::string_view text);

}  // namespace stepcast::strategy
