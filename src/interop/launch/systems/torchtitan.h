// torchtitan's functions in Python, beside its TOML.
#pragma once

#include <vector>

#include "../options/rule.h"

namespace stepcast::interop::launch {

const std::vector<Rule>& torchtitan_config_rules();
const std::vector<Unread>& torchtitan_config_meaningless();
const std::vector<Unread>& torchtitan_config_unmodelled();

// The model that model_registry(FLAVOUR) names, in a file models/FAMILY/config_registry.py.
void torchtitan_config_model(Draft& d);

// What else such a function sets: recomputation, loss, converters and CUDA graphs by classes.
void torchtitan_config(Draft& d);

}  // namespace stepcast::interop::launch
