// Units whose parameters are sharded between uses (FSDP, ZeRO-3, ZeRO++, Gemini's chunks): what is
// gathered and reduced together, where it stands, and what the features of the two directions
// (sharded_parameters.cpp, sharded_gradients.cpp), tiles, chunks and offloading share of it.
#pragma once

#include <cstdint>
#include <vector>

#include "builder.h"
#include "chunks.h"
#include "data_parallel.h"

namespace stepcast::lower {

// A wrap's parameters on their way to every rank and there.
struct WrapGather {
  bool whole = false;      // they are on every rank
  bool issued = false;     // the gather is under way
  bool partition = false;  // a shard of the partition group is held (hpZ, FSDP2's reshard size)
  Mark done;
  std::uint32_t buffer = program::kNone;
  std::uint32_t parameters = program::kNone;
  std::uint32_t partition_buffer = program::kNone;
};

// This rank's shard on its way from the host or its drives, ahead of the gather.
struct WrapFetch {
  bool read = false;     // on its way from the drives, or in the host's memory
  bool fetched = false;  // and from there, until it is gathered
  Mark read_done, done;
  std::uint32_t staged = program::kNone;  // in the host's memory, from the drives
  std::uint32_t buffer = program::kNone;
};

struct WrapGradients {
  bool shard_made = false;               // the gradient of its shard stands
  std::uint32_t whole = program::kNone;  // while they accumulate without being reduced
  std::uint32_t fresh = program::kNone;  // of the pass under way, in the parameters' format
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
  std::int64_t tiled = 0;   // dense, gathered and reduced tile by tile beside these
  std::int64_t before = 0;  // elements of the stage's wraps before this one in forward order
  std::int64_t behind = 0;  // and behind it
  WrapGather gather;
  WrapFetch fetch;
  WrapGradients gradients;
};

struct ShardedUnits {
  std::vector<Wrap> wraps;                        // in forward order
  std::vector<std::vector<std::size_t>> wrap_of;  // [chunk][unit]
  std::vector<Chunk> chunks;  // that hold their parameters; none: wraps are gathered by themselves
  std::vector<Chunk> pages;   // that hold this rank's shards of them, where they are paged
  bool waited_for_step = false;  // the first gather waits for the optimizer of the step before
  std::vector<Mark> freed;       // where the wraps gathered last were given up, oldest first
  Mark last_reduce;
  std::uint32_t last_reduce_buffer = program::kNone;
};

struct Stage;

void make_wraps(Stage& stage);
Wrap& wrap_of(Stage& stage, int chunk, std::size_t unit);
// Elements that a wrap gathers, frozen ones and tiles among them.
std::int64_t gathered_elements(const Stage& stage, const Wrap& w);
// Bytes of a wrap's parameters as the forward and backward passes read them.
double whole_bytes(const Stage& stage, const Wrap& w);
// Bytes of a wrap's parameters that this rank keeps between uses, in the states' format, but for
// tiles.
double shard_bytes(const Stage& stage, const Wrap& w);
// Elements of a wrap's gradient.
Elements gradient_elements(const Stage& stage, const Wrap& w);
// Ranks of the group that holds a second copy for the backward gather; 1: there is none.
int partition_ranks(const strategy::Plan& plan);
// A wrap's whole parameters are given up behind what the compute stream was given.
void drop_wrap(Stage& stage, Wrap& w, bool backward);
// Reduces whole gradients of a chunk to shards on `stream`.
void reduce_shards(Stage& stage, int chunk, std::int64_t elements, bool expert,
                   program::StreamIndex stream);
// Reduces what a chunk's bucket of gradients holds (DeepSpeed's stage 3).
void send_bucket(Stage& stage, int chunk, bool expert);

}  // namespace stepcast::lower
