// Models by the names that other programs give them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rule.h"

namespace stepcast::interop::launch {

// Sets the model of configs/models that a name of other programs means ("meta-llama/Llama-3.1-8B",
// "llama3_8b").
void named_model(Draft& draft, const Setting& setting, std::string_view key);
bool use_model(Draft& draft, const Setting& setting, const std::string& name);
// "llama3_1_8b" is Llama 3.1 of 8B, "qwen2_0_5b" Qwen2 of 0.5B: an underscore between digits may be
// a point. The candidates, as written first.
std::vector<std::string> spellings(const std::string& name);
// Rules for a HuggingFace config.json among the inputs, which is the setting "model-config".
const std::vector<Rule>& common_rules();

}  // namespace stepcast::interop::launch
