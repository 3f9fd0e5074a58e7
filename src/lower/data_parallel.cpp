#include "data_parallel.h"

#include <algorithm>

namespace stepcast::lower {

using strategy::DataComm;

int node_share(const strategy::Plan& plan) {
  const int gpus = plan.job.cluster.node.gpus;
  std::vector<int> ranks;
  for (int d = 0; d < plan.grid.data; ++d) {
    for (int c = 0; c < plan.grid.context; ++c) {
      ranks.push_back(cluster::rank_at(plan.grid, {0, c, d, 0}));
    }
  }
  std::sort(ranks.begin(), ranks.end());
  const int shards = plan.data_comm == DataComm::all_reduce ? plan.data_ranks() : plan.shard_ranks;
  ranks.resize(static_cast<std::size_t>(std::min<int>(shards, static_cast<int>(ranks.size()))));
  const auto local = static_cast<int>(std::count_if(
      ranks.begin(), ranks.end(), [&](int r) { return r / gpus == ranks.front() / gpus; }));
  return local > 0 && static_cast<int>(ranks.size()) % local == 0 ? local : 1;
}

Sharing sharing(const strategy::Plan& plan, bool expert) {
  const bool whole = plan.data_comm == DataComm::all_reduce || plan.data_comm == DataComm::none;
  if (expert) {
    const int shards = whole ? plan.expert_data : strategy::expert_shards(plan);
    return {kExpertData, kExpertReplicas, shards, plan.expert_data / shards};
  }
  const int shards = whole ? plan.data_ranks() : plan.shard_ranks;
  return {kData, kReplicas, shards, plan.data_ranks() / shards};
}

bool wraps_units(const strategy::Plan& plan) {
  // FSDP's SHARD_GRAD_OP is ZeRO-2 by units: parameters are sharded between steps. FairScale's
  // ShardedDDP is not.
  const auto& system = plan.job.system;
  return plan.data_comm == DataComm::shard_all ||
         (plan.data_comm == DataComm::shard_grads && system.family == job::System::Family::fsdp2 &&
          !system.reduce_to_owner);
}

bool reduces_each_pass(const strategy::Plan& plan) {
  // ZeRO-2 and DeepSpeed's ZeRO-3 have nowhere to keep whole gradients (engine.py refuses no_sync).
  // FSDP's units reduce behind each backward pass unless no_sync is asked for, with stages once
  // (torch.distributed.pipelining holds requires_gradient_sync off until the last).
  const bool each = plan.job.parallelism.reduce_each;
  if (!wraps_units(plan)) {
    return each || plan.data_comm == DataComm::shard_grads;
  }
  const bool torch = plan.job.system.family == job::System::Family::fsdp2;
  return plan.grid.pipeline == 1 ? each || !torch : each && !torch;
}

bool accumulates_whole(const strategy::Plan& plan) {
  const bool shards =
      plan.data_comm == DataComm::shard_grads || plan.data_comm == DataComm::shard_all;
  return !shards || !reduces_each_pass(plan);
}

bool reduce_beside(const strategy::Plan& plan) {
  if (plan.grid.pipeline > 1 && !plan.job.system.overlap_with_pipeline) {
    return false;
  }
  return plan.job.parallelism.overlap.grad_reduce ||
         (wraps_units(plan) && plan.job.system.zero3_overlaps);
}

bool gather_beside(const strategy::Plan& plan) {
  return plan.job.parallelism.overlap.param_gather ||
         (wraps_units(plan) && plan.job.system.zero3_overlaps);
}

}  // namespace stepcast::lower
