#include "data_parallel.h"

#include <algorithm>

namespace stepcast::lower {

using strategy::DataComm;

int node_share(const std::vector<int>& ranks, int gpus) {
  const auto local = static_cast<int>(std::count_if(
      ranks.begin(), ranks.end(), [&](int r) { return r / gpus == ranks.front() / gpus; }));
  return local > 0 && static_cast<int>(ranks.size()) % local == 0 ? local : 1;
}

int node_share(const strategy::Plan& plan) {
  std::vector<int> ranks;
  for (int d = 0; d < plan.grid.data; ++d) {
    for (int c = 0; c < plan.grid.context; ++c) {
      ranks.push_back(cluster::rank_at(plan.grid, {0, c, d, 0}));
    }
  }
  std::sort(ranks.begin(), ranks.end());
  const int shards = plan.data_comm == DataComm::all_reduce ? plan.data_ranks() : plan.shard_ranks;
  ranks.resize(static_cast<std::size_t>(std::min<int>(shards, static_cast<int>(ranks.size()))));
  return node_share(ranks, plan.cluster.node.gpus);
}

bool sums_over_copies(const strategy::Plan& plan) {
  return plan.gradient_sync.operation == strategy::GradientSync::Operation::all_reduce &&
         !plan.parameter_gather.by_units;
}

Sharing sharing(const strategy::Plan& plan, bool expert) {
  const bool whole = plan.data_comm == DataComm::all_reduce || plan.data_comm == DataComm::none;
  if (expert) {
    const int shards = whole ? plan.expert_data : strategy::expert_shards(plan);
    return {kExpertData, kExpertReplicas, kAllExpertData, shards, plan.expert_data / shards};
  }
  const int shards = whole ? plan.data_ranks() : plan.shard_ranks;
  return {kData, kReplicas, kAllData, shards, plan.data_ranks() / shards};
}

double shard_elements(const strategy::Plan& plan, const Elements& trained) {
  return static_cast<double>(trained.dense) / plan.shard_ranks +
         static_cast<double>(trained.expert) / strategy::expert_shards(plan);
}

bool prefetches_behind_loss(const strategy::Plan& plan) {
  // DeepSpeed gathers ahead by a trace of the whole step, whatever hooks have fired.
  return wraps_units(plan) && plan.parameter_gather.prefetch_elements == 0 &&
         (plan.loss_form.outside_model ||
          ((!plan.parameter_gather.ends_join_root || plan.parameter_gather.ends_are_unit) &&
           !joins_head(plan.loss_form.kernel)));
}

std::int64_t gemm_workspace(const strategy::Plan& plan, double compute_capability) {
  const std::int64_t stated = plan.device_memory.gemm_workspace.count();
  const bool hopper = compute_capability >= 9;
  return stated > 0 ? stated : hopper ? 32 << 20 : 8519680;
}

bool wraps_units(const strategy::Plan& plan) { return plan.parameter_gather.by_units; }

bool reduces_each_pass(const strategy::Plan& plan) { return plan.gradient_sync.each_pass; }

bool accumulates_whole(const strategy::Plan& plan) { return plan.gradient_sync.accumulates_whole; }

bool reduce_beside(const strategy::Plan& plan) { return plan.gradient_sync.overlaps; }

bool gather_beside(const strategy::Plan& plan) { return plan.parameter_gather.overlaps; }

}  // namespace stepcast::lower
