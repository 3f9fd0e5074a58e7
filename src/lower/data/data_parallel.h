// When gradients and parameters travel between data-parallel ranks, and among whom: what follows
// from the plan alone.
#pragma once

#include <cstdint>
#include <vector>

#include "../passes/passes.h"

namespace stepcast::lower {

// How one kind of parameters is shared: `shards` ranks of `group` hold one copy, `copies` ranks of
// `replicas` the same shard, and `all` are the ranks of all copies.
struct Sharing {
  Role group = kData;
  Role replicas = kReplicas;
  Role all = kAllData;
  int shards = 1;
  int copies = 1;
  int members() const { return shards * copies; }
};

// Gradients of every backward pass are reduced.
bool reduces_each_pass(const strategy::Plan& plan);
// Whole gradients add up from micro-batch to micro-batch on each rank.
bool accumulates_whole(const strategy::Plan& plan);
// Units are gathered and reduced whole (FSDP, ZeRO-3), not in buckets.
bool wraps_units(const strategy::Plan& plan);
// The hook that gathers ahead of the last layer's backward pass belongs to a module without the
// loss: to a head that is a unit of its own, or to the root where the loss is outside of it.
bool prefetches_behind_loss(const strategy::Plan& plan);

// Where a system sends in two levels, within nodes and between them (Horovod's hierarchical
// all-reduce, ZeRO++'s quantised gradients): ranks of a data-parallel group in one node. 1: a node
// has one of them, or nodes have unlike numbers.
int node_share(const strategy::Plan& plan);
// The same of a group's `ranks`, in ascending order, on nodes of `gpus`.
int node_share(const std::vector<int>& ranks, int gpus);

// Whole gradients are summed over the ranks of all copies in one operation, although fewer ranks
// share the states; nothing is sent between the same shards of copies.
bool sums_over_copies(const strategy::Plan& plan);

// How a plan shares dense parameters, or those of experts.
Sharing sharing(const strategy::Plan& plan, bool expert);
// Elements of which a rank holds the optimizer states.
double shard_elements(const strategy::Plan& plan, const Elements& trained);
// Gradients are reduced, and parameters gathered, beside compute.
bool reduce_beside(const strategy::Plan& plan);
bool gather_beside(const strategy::Plan& plan);
// Units are gathered before every use, not once a step.
inline bool fully_sharded(const strategy::Plan& plan) {
  return plan.data_comm == strategy::DataComm::shard_all;
}

// Bytes of one cuBLAS handle's scratch memory.
std::int64_t gemm_workspace(const strategy::Plan& plan, double compute_capability);

// Bytes of an element.
inline double width(DType type) { return bytes_per_element(type); }

}  // namespace stepcast::lower
