// What values cannot show alone: derived defaults, and keys that are missing. What is feasible is
// judged in strategy.
#pragma once

#include <vector>

#include "stepcast/config/config.h"

namespace stepcast::config {

// Fills what follows from other keys (kv_heads, head_dim, ffn…).
void derive(job::Model& model);
// `set` tells whether a key was written anywhere.
void derive(Loaded& loaded);

// The keys that a job must state, and does not. Judged when defaults are derived.
std::vector<Infeasible> missing(const Loaded& loaded);
// Those of a cluster without a job.
std::vector<Infeasible> missing(const job::Cluster& cluster);

}  // namespace stepcast::config
