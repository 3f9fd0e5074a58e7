// What values cannot show alone: derived defaults, and plans that cannot be.
#pragma once

#include <vector>

#include "stepcast/config/config.h"

namespace stepcast::config {

// Fills what follows from other keys (kv_heads, head_dim, ffn…).
void derive(job::Model& model);
// `set` tells whether a key was written anywhere.
void derive(Loaded& loaded);

// Every impossibility that shows without building the plan.
std::vector<Infeasible> check(const Loaded& loaded);
// Those of the model alone (check_model.cpp).
std::vector<Infeasible> check_model(const job::Model& model);
// An offload target that the node lacks, or says too little of.
std::vector<Infeasible> check_offload(const job::Job& job);
// Those of the cluster alone.
std::vector<Infeasible> check_cluster(const Loaded& loaded);

}  // namespace stepcast::config
