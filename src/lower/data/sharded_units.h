// Units whose parameters are sharded between uses (FSDP, ZeRO-3, ZeRO++, Gemini's chunks): which
// units are gathered and reduced together, and the state of each. The features of gathering
// (sharded_parameters.cpp), reducing (sharded_gradients.cpp), tiles, chunks and offloading share
// it.
#pragma once

#include <cstdint>
#include <vector>

#include "../stage/builder.h"
#include "chunks.h"
#include "data_parallel.h"

namespace stepcast::lower {

// What a head's parameters take beyond those of other wraps.
struct HeadGather {
  TensorList gathered;  // for all calls but the first, or for a loss in chunks
  program::BufferIndex copied_out = program::kNone;  // of these
  TensorList of_loop;                                // parameters while the loss runs in chunks
  program::BufferIndex loop = program::kNone;
};

// A wrap's parameters while every rank gathers and holds them.
struct WrapGather {
  bool whole = false;      // they are on every rank
  bool issued = false;     // the gather is under way
  bool partition = false;  // a shard of the partition group is held (hpZ, FSDP2's reshard size)
  Mark done;
  program::BufferIndex buffer = program::kNone;
  program::BufferIndex ahead =
      program::kNone;  // the buffer, made within the pass that issues the gather
  program::BufferIndex parameters = program::kNone;
  program::BufferIndex partition_buffer = program::kNone;
  program::BufferIndex copied_out = program::kNone;  // what was gathered, given up within a pass
  // Of a head that does not stand beside its loss: the places in the passes at which its parameters
  // do, and what was gathered for them; of a head that is called for chunks, for each call.
  TensorList until_loss, behind_loss, gathered_until_loss, gathered_behind_loss;
  HeadGather head;
  TensorList arrays;  // the whole parameters one by one, as they are copied out; empty: one tensor
};

// This rank's shard while it comes from the host or its drives, before the gather.
struct WrapFetch {
  bool read = false;     // the read from the drives was issued
  bool fetched = false;  // the copy to the device was issued; until the shard is gathered
  Mark read_done, done;
  program::BufferIndex staged = program::kNone;  // in the host's memory, from the drives
  program::BufferIndex buffer = program::kNone;
};

struct WrapGradients {
  bool shard_made = false;    // the gradient of this rank's shard is allocated
  bool norm_sent = false;     // the norm's gradient went along with a loss in chunks
  bool outside_made = false;  // that of experts in no unit is
  program::BufferIndex standing = program::kNone;  // it, where it outlives the step
  std::vector<program::BufferIndex> whole;         // sum over micro-batches that is not reduced yet
  // The result of the unit's last reduction that replicas sum, beside the gradient to which it has
  // been added: FSDP2 keeps it to the next one or to the end of the backward pass, so that the
  // allocator does not hand it out before the sum is through (torch 2.15,
  // distributed/fsdp/_fully_shard/_fsdp_param_group.py:886, AllReduceState; since 2.6.0, :440, and
  // not in 2.5.1).
  program::BufferIndex over_replicas = program::kNone;
  // Made by the pass under way, unit by unit, in the parameters' format.
  std::vector<program::BufferIndex> fresh;
  // Of a head whose loss runs in chunks: what the backward passes of chunks make beside the sum of
  // their gradients; the same in the first pass since the last reduction, and the sum that it
  // makes.
  TensorList chunk, first_chunk, summed;
  program::BufferIndex of_chunk = program::kNone;
};

// Units that are gathered and reduced together: an FSDP wrap, a DeepSpeed module, a Gemini chunk.
// An FSDP root has the first unit and the last one, and none between them.
struct Wrap {
  int chunk = 0;
  std::vector<std::size_t> units;  // in forward order
  std::size_t first() const { return units.front(); }
  std::size_t last() const { return units.back(); }
  bool stays = false;           // whole from forward to backward
  Elements elements;            // trained and sharded, `padding` among them
  Elements padding;             // with which buckets of whole rows are filled up (unit_rows.h)
  std::int64_t persistent = 0;  // trained, never sharded (DeepSpeed's small parameters)
  std::int64_t frozen_bytes = 0, frozen_experts = 0;  // as Parameters have them
  std::int64_t gathered_frozen = 0, gathered_frozen_experts = 0;
  std::int64_t outside = 0;  // trained elements of experts that stay on their rank, in no unit
  std::int64_t tiled = 0;    // dense elements beside these, gathered and reduced tile by tile
  std::int64_t norm = 0;     // of `elements`, those of a head's norm
  std::int64_t before = 0;   // elements of all wraps of the stage before this one in forward order
  WrapGather gather;
  WrapFetch fetch;
  WrapGradients gradients;
};

struct ShardedUnits {
  std::vector<Wrap> wraps;                        // in the order of their last units
  std::vector<std::vector<std::size_t>> wrap_of;  // [chunk][unit]
  std::vector<Chunk> chunks;     // hold the parameters; none: wraps are gathered one by one
  std::vector<Chunk> pages;      // hold this rank's shards; none: shards are not paged
  std::int64_t frozen_root = 0;  // elements of frozen parameters in the root unit
  std::int64_t root = 0;         // elements of the root unit that are in no wrap
  std::int64_t gathered = 0;     // elements of all wraps
  bool buffered = false;         // they come and go in tensors of their own (unit_buffers.cpp)
  bool traced = false;  // arrays are gathered by a trace (traced_parameters.cpp), not wraps
  bool waited_for_step = false;   // the first gather waits for the optimizer of the step before
  std::vector<Mark> freed;        // where the wraps gathered last were given up, oldest first
  std::vector<std::size_t> used;  // wraps that are given up once the next is gathered
  Mark last_reduce;
  program::BufferIndex last_reduce_buffer = program::kNone;
};

struct Stage;

void make_wraps(Stage& stage);
// Parameters are gathered as a trace of the micro-batch says, array by array.
bool traces_fetches(const Stage& stage);
Wrap& wrap_of(Stage& stage, int chunk, std::size_t unit);
// Elements that a wrap gathers, frozen ones and tiles among them.
std::int64_t gathered_elements(const Stage& stage, const Wrap& w);
// Trained dense elements of a wrap as they travel: together, or each adapter's for itself.
std::vector<std::int64_t> trained_pieces(const Stage& stage, const Wrap& w);
// Bytes of a wrap's parameters as the forward and backward passes read them.
double whole_bytes(const Stage& stage, const Wrap& w);
// Elements of a wrap that are whole at a time: all trained ones, or its largest weight where a
// compiler places each weight around the operator that reads it (ParameterGather::by_arrays).
std::int64_t standing_elements(const Stage& stage, const Wrap& w);
// Bytes of a wrap's parameters that this rank keeps between uses, in the states' format, tiles
// excepted.
double shard_bytes(const Stage& stage, const Wrap& w);
// Of these the trained ones.
double trained_shard(const Stage& stage, const Wrap& w);
// Bytes of a wrap's dense or expert trained parameters as a gather brings them.
double gathered_trained(const Stage& stage, const Wrap& w, bool expert);
// A rank's share of frozen parameters, of which `experts` are sharded as experts are; both in
// bytes.
double frozen_shard(const Stage& stage, std::int64_t all, std::int64_t experts);
// Elements of a wrap's gradient.
Elements gradient_elements(const Stage& stage, const Wrap& w);
// Ranks of the group that holds a second copy for the backward gather; 1: there is none.
int partition_ranks(const strategy::Plan& plan);
// A head that is a unit of its own, whose hooks run between the model and its loss.
bool meets_loss(const Stage& stage, const Wrap& w);
// Its loss runs chunk by chunk, forward and backward, within the forward pass: the last chunk's
// backward pass reduces its gradient (torchtitan 0.3.0, components/loss.py:735).
bool loss_in_chunks(const Stage& stage, const Wrap& w);
void open_loss_chunks(Stage& stage, Wrap& w);
void close_loss_chunks(Stage& stage, Wrap& w);
// A flat parameter that is not trained has no gradient to wait for: FSDP1 gives it up by a hook on
// the gradient of its unit's input, behind the one that gathers the unit before (torch 2.15,
// fsdp/_runtime_utils.py:1473, _register_post_backward_reshard_only_hook; hooks of a tensor run as
// they were registered).
bool gives_up_behind_next(const Stage& stage, const Wrap& w);
void drop_used(Stage& stage);
// A wrap's whole parameters are given up behind what the compute stream was given.
void drop_wrap(Stage& stage, Wrap& w, bool backward);
// Reduces whole gradients of a chunk to shards on `stream`.
void reduce_shards(Stage& stage, int chunk, std::int64_t elements, bool expert,
                   program::StreamIndex stream);

}  // namespace stepcast::lower
