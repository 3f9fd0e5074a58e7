// Making the model on the device, where a framework has tensors there whole before it shards them:
// the segments in which the shards come to lie stay reserved, and later tensors find their rest.
#pragma once

#include "../stage/stage_state.h"

namespace stepcast::lower {

// Persistent tensors of this rank, in the order of the stage's wraps.
struct Shards {
  // Of each wrap that has trained parameters, its flat parameter's; of each that has frozen ones.
  std::vector<std::int64_t> trained, frozen;
  std::vector<std::int64_t> constants;  // of 4-bit weights, whole
};

// Units become flat parameters one by one, as FSDP1 wraps them.
bool makes_flat_units(const Stage& stage);
// Every rank has the whole model of 4-bit weights before it is sharded.
bool makes_quantised(const Stage& stage);
// Tensors by wrap, as making the model leaves them; only where one of the two holds.
Shards shards_of_wraps(const Stage& stage);

struct ShardBuffers {
  program::BufferIndex trained = program::kNone;
  program::BufferIndex frozen = program::kNone;
  program::BufferIndex constants = program::kNone;
};
// Writes down the calls that leave `shards` in these buffers.
void note_making(Stage& stage, const Shards& shards, const ShardBuffers& buffers);

}  // namespace stepcast::lower
