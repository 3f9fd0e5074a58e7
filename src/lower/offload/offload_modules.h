// Activation offload of single modules, as Megatron-LM's fine-grained offloading names them: what a
// module reads and keeps leaves (core/pipeline_parallel/fine_grained_activation_offload.py).
#pragma once

#include <string>
#include <vector>

#include "stepcast/model/operators.h"

namespace stepcast::lower {

// Of all that the graph saves, the share that the modules' inputs make up.
double share_of_modules(const model::OperatorGraph& graph, const std::vector<std::string>& modules);

}  // namespace stepcast::lower
