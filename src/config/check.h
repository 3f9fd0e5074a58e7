// Derived defaults, and keys that are missing. Feasibility is judged in strategy.
#pragma once

#include <vector>

#include "stepcast/config/config.h"

namespace stepcast::config {

// Fills in fields that follow from others (kv_heads, head_dim, ffn…).
void derive(job::Model& model);
// `set` tells whether a key was written anywhere.
void derive(Loaded& loaded);

// The keys that a job must state and does not, once defaults are derived.
std::vector<Infeasible> missing(const Loaded& loaded);
// The same for a cluster without a job.
std::vector<Infeasible> missing(const job::Cluster& cluster);

}  // namespace stepcast::config
