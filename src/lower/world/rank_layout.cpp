#include "rank_layout.h"

#include "../data/data_parallel.h"
#include "../pipeline/pipeline.h"

namespace stepcast::lower {
namespace {

using schedule::Placement;

StageLayout stage_layout(const strategy::Plan& plan) {
  StageLayout out;
  const bool two_ends = !plan.stages.empty() && plan.stages.front().front().embedding &&
                        plan.stages.back().back().head;
  out.tied_embeddings = plan.model.tied_embeddings && two_ends && !plan.vocabulary_split;
  out.pairs = plan.order.placement == Placement::bidirectional;
  out.vocabulary = plan.order.barriers > 0;
  return out;
}

}  // namespace

GroupLayout group_layout(const strategy::Plan& plan) {
  GroupLayout out;
  out.grid = plan.grid;
  out.tensor_kind = plan.tensor_parallel.kind;
  out.side = plan.shard.tensor;
  out.context_inner = plan.context_exchange.inner;
  out.whole = plan.data_comm == strategy::DataComm::all_reduce;
  out.shard_ranks = plan.shard_ranks;
  out.over_copies = sums_over_copies(plan);
  out.partition = plan.parameter_gather.partition;
  if (plan.gradient_sync.hierarchical || plan.gradient_sync.quantised) {
    out.node_share = node_share(plan);
  }
  out.one_norm = plan.shard_ranks > 1 || plan.shard.expert > 1;
  out.stages = stage_layout(plan);
  if (plan.model.moe) {
    out.experts = {plan.shard.expert, plan.shard.expert_tensor, plan.expert_data,
                   out.whole ? plan.expert_data : strategy::expert_shards(plan)};
  }
  return out;
}

RankLayout rank_layout(const strategy::Plan& plan) {
  RankLayout out;
  out.groups = group_layout(plan);
  out.data_beside = plan.gradient_sync.overlap_stated || plan.parameter_gather.overlap_stated ||
                    plan.data_comm == strategy::DataComm::shard_all;
  out.both_ways = plan.order.placement != Placement::loop;
  out.blocking = !plan.interleaved && !out.both_ways;
  out.batched = plan.stage_transport.batched && transport_of(plan) != Transport::overlapped;
  out.wraps = plan.interleaved && !out.both_ways;
  out.tensor_ring = plan.grid.tensor > 1 && plan.tensor_parallel.overlap != TensorOverlap::none;
  out.peer_to_peer = plan.cluster.node.peer_to_peer;
  return out;
}

}  // namespace stepcast::lower
