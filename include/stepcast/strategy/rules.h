// What is feasible: the one rule book. A fault is a value that names the job's key; `config` finds the key's line.
#pragma once

#include <optional>
#include <vector>

#include "stepcast/base/diagnostics.h"
#include "stepcast/job/job.h"
#include "stepcast/model/operators.h"

namespace stepcast::strategy {

// All faults that a job's values show when it is read, in the order of the rule book. What a training system, a kernel
// or a schedule refuses is not among them; first_fault() reports that. The job must have all required keys.
std::vector<Infeasible> faults(const job::Job& job);

// Faults of a cluster, and of settings forced upon NCCL, without a job.
std::vector<Infeasible> cluster_faults(const job::Job& job);

// The first fault of all rules. Nothing: strategy::resolve() can plan the job, unless its schedule cannot be made or its
// layers cannot be placed.
std::optional<Infeasible> first_fault(const job::Job& job);

// The first reason why the layers of a model cannot be divided into these shards.
std::optional<Infeasible> shard_fault(const job::Model& model, const model::Shard& shard);

}  // namespace stepcast::strategy
