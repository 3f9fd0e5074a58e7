// torchtitan's functions in Python, beside its TOML.
#pragma once

#include <string_view>
#include <vector>

#include "../options/rule.h"

namespace stepcast::interop::launch {

const std::vector<Rule>& torchtitan_config_rules();
const std::vector<Unread>& torchtitan_config_meaningless();
const std::vector<Unread>& torchtitan_config_unmodelled();

// How tokens reach their experts, by torchtitan's words.
void torchtitan_dispatcher(Draft& d, const Setting& s, std::string_view key);

// Recomputation that the compiler chooses for a budget of memory; `mode` asks for it.
void torchtitan_memory_budget(Draft& d, const Setting& mode);

// The model that model_registry(FLAVOUR) names, in a file models/FAMILY/config_registry.py.
void torchtitan_config_model(Draft& d);

// What else such a function sets: recomputation, loss, converters and CUDA graphs by classes.
void torchtitan_config(Draft& d);

}  // namespace stepcast::interop::launch
