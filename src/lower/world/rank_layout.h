// All of a plan that decides which ranks share communicators and channels, and which of these move
// bytes at the same time: what jobs of one grid mostly have in common.
#pragma once

#include <optional>

#include "stepcast/cluster/topology.h"
#include "stepcast/strategy/plan.h"

namespace stepcast::lower {

struct ExpertLayout {
  int expert = 1;
  int tensor = 1;
  int data = 1;    // ranks that hold the same experts
  int shards = 1;  // of the states of one copy of them
  bool operator==(const ExpertLayout&) const = default;
};

// Groups between pipeline stages.
struct StageLayout {
  bool tied_embeddings = false;  // of the first and the last stage
  bool pairs = false;            // stages hold replicas of each other's layers
  bool vocabulary = false;       // all stages hold rows of the vocabulary
  bool operator==(const StageLayout&) const = default;
};

struct GroupLayout {
  cluster::Grid grid;
  TensorKind tensor_kind = TensorKind::one_d;
  int side = 1;  // tensor ranks along one side of their grid
  int context_inner = 1;
  bool whole = false;   // gradients are summed over all data-parallel ranks
  int shard_ranks = 1;  // that share one copy of what is sharded
  bool over_copies = false;
  int partition = 1;
  int node_share = 0;     // of groups in two levels; 0: there are none
  bool one_norm = false;  // of all ranks
  StageLayout stages;
  std::optional<ExpertLayout> experts;
  bool operator==(const GroupLayout&) const = default;
};

struct RankLayout {
  GroupLayout groups;
  bool data_beside = false;  // data-parallel collectives run beside compute
  bool blocking = false;     // one message between stages moves at a time
  bool batched = false;      // messages between stages are posted in batches
  bool both_ways = false;    // activations travel up as well as down the stages
  bool wraps = false;        // from the last stage to the first
  bool tensor_ring = false;
  bool peer_to_peer = true;  // GPUs of a node reach each other past host memory
  bool operator==(const RankLayout&) const = default;
};

GroupLayout group_layout(const strategy::Plan& plan);
RankLayout rank_layout(const strategy::Plan& plan);

}  // namespace stepcast::lower
