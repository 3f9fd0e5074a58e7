// What a stage remembers about gradients and parameters on their way between data-parallel ranks
// while it is lowered.
#pragma once

#include <cstdint>
#include <vector>

#include "builder.h"
#include "chunks.h"
#include "passes.h"

namespace stepcast::lower {

// Elements of parameters by the ranks that share them: dense ones over data x context, experts over
// the ranks that hold the same experts.
struct Elements {
  std::int64_t dense = 0;
  std::int64_t expert = 0;
  bool none() const { return dense <= 0 && expert <= 0; }
  std::int64_t total() const { return dense + expert; }
  Elements& operator+=(const Elements& o) {
    dense += o.dense;
    expert += o.expert;
    return *this;
  }
};

// How one kind of parameters is shared: `shards` ranks of `group` hold one copy, `copies` ranks of
// `replicas` the same shard.
struct Sharing {
  Role group = kData;
  Role replicas = kReplicas;
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

// Groups within nodes and across them, where a system sends in two levels (Horovod's hierarchical
// all-reduce, ZeRO++'s quantised gradients): ranks of a data-parallel group in one node; 1: it has
// one a node, or uneven ones.
int node_share(const strategy::Plan& plan);

// Parameters of ZeRO-1 and 2 that are gathered in one piece ahead of the forward pass.
struct ParameterPiece {
  int chunk = 0;
  std::size_t first = 0;  // units
  std::size_t last = 0;
  Elements elements;
  bool issued = false;
  Mark gathered;
};

// Units that are gathered and reduced together: an FSDP wrap, a DeepSpeed module, a Gemini chunk.
struct Wrap {
  int chunk = 0;
  std::size_t first = 0;  // units
  std::size_t last = 0;
  bool root = false;            // stays whole from forward to backward
  Elements elements;            // trained and sharded
  std::int64_t persistent = 0;  // trained, never sharded (DeepSpeed's small parameters)
  std::int64_t frozen_bytes = 0;
  std::int64_t tiled = 0;  // dense, gathered and reduced tile by tile beside these
  std::int64_t before =
      0;  // elements of the stage's wraps before this one in forward order, and behind it
  std::int64_t behind = 0;
  // Where it stands.
  bool whole = false;       // its parameters are on every rank
  bool issued = false;      // its gather is under way
  bool partition = false;   // a shard of the partition group is held (hpZ, FSDP2's reshard size)
  bool shard_made = false;  // the gradient of its shard stands
  bool read = false;        // on its way from the drives, or in the host's memory
  bool fetched = false;     // and from there, until it is gathered
  Mark gathered, read_done, fetch_done;
  std::uint32_t staged = program::kNone;        // in the host's memory, from the drives
  std::uint32_t fetch_buffer = program::kNone;  // this rank's shard
  std::uint32_t gather_buffer = program::kNone;
  std::uint32_t parameters = program::kNone;
  std::uint32_t partition_buffer = program::kNone;
  std::uint32_t gradients = program::kNone;  // whole, while they accumulate without being reduced
  std::uint32_t fresh =
      program::kNone;  // of the backward pass under way, in the parameters' format
};

struct DataParallelState {
  std::vector<int> forwards;           // by chunk: passes begun
  std::vector<int> backwards;          // and ended
  std::vector<int> expected;           // backward passes of a step
  std::vector<Elements> pending;       // by chunk: gradients waiting for their bucket
  std::vector<bool> bucket_sent;       // by chunk: in this backward pass
  std::vector<ParameterPiece> pieces;  // in forward order
  bool waited_for_step = false;  // the first gather waits for the optimizer of the step before
  int forward_slots = 0;         // forward passes begun on this rank
  int backward_slots = 0;
  struct Later {
    int slot = 0;  // backward pass behind which it leaves
    int chunk = 0;
  };
  std::vector<Later> later;  // aligned reductions (Megatron-LM's align_grad_reduce)
  std::int64_t cycle = 0;    // Horovod: backward time since the last tick

  std::vector<Wrap> wraps;    // in forward order
  std::vector<Chunk> chunks;  // that hold their parameters; none: wraps are gathered by themselves
  std::vector<Chunk> pages;   // that hold this rank's shards of them, where they are paged
  std::vector<int> due;       // chunks to be reduced behind what their last backward pass sends
  std::vector<std::vector<std::size_t>> wrap;  // [chunk][unit]
  Mark last_copy_out;
  Mark last_reduce;
  std::vector<Mark> freed;  // where the wraps gathered last were given up, oldest first
  std::uint32_t last_gather_buffer = program::kNone;
  std::uint32_t last_reduce_buffer = program::kNone;
  std::vector<std::uint32_t> gradient_buffers;  // released when gradients are set to none
};

}  // namespace stepcast::lower
