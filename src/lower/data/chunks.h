// Parameters in chunks (Colossal-AI's Gemini) or pages (Angel-PTM): what lies in which, and which
// of them live on the GPU.
//
// LAW  Tensors fill chunks of one capacity in the order of the forward pass. None is cut: a tensor
//      that no longer fits opens the next chunk, and one that is larger than a chunk gets a chunk
//      of its own size. A chunk is stored, gathered and moved whole, its empty rest included. The
//      first chunks are off the GPU, as many as the offloaded share asks for. Pages are small
//      chunks of a rank's shard. Tensors are cut across them, so that only the last page has room
//      left. Pages are stored and moved whole, but units are gathered.
// SOURCE  colossalai/zero/gemini/chunk/manager.py (register_tensor), chunk.py (append_tensor),
//      placement_policy.py (StaticPlacementPolicy).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "../stage/builder.h"

namespace stepcast::lower {

struct Chunk {
  std::int64_t elements = 0;  // its capacity
  std::int64_t filled = 0;    // elements of tensors in it
  std::size_t first = 0;      // wraps whose tensors it holds
  std::size_t last = 0;
  bool away = false;  // off the GPU from step to step
  // Its state while the passes run.
  bool whole = false;    // gathered on every rank
  bool read = false;     // this rank's shard is read from the drives
  bool fetched = false;  // this rank's shard is copied from the host's memory
  program::BufferIndex buffer = program::kNone;
};

enum class Pack { whole_tensors, cut_tensors };
// `tensors`: elements, by wrap in forward order. `capacity`: elements of a chunk, a multiple of the
// `ranks` that share it. `away`: share of all chunks' capacity that is off the GPU.
std::vector<Chunk> pack_chunks(const std::vector<std::vector<std::int64_t>>& tensors,
                               std::int64_t capacity, int ranks, double away, Pack pack);

struct Stage;
struct Wrap;

// The chunks (Gemini) that hold a stage's parameters, or the pages (Angel-PTM) that hold this
// rank's shards of them; none where the plan has neither. Experts in a group of their own lie in
// neither.
void make_chunks(Stage& stage);
std::vector<Chunk>& stored(Stage& stage);
const std::vector<Chunk>& stored(const Stage& stage);
// This rank's shard of a chunk in the states' format, in bytes.
double shard_bytes(const Stage& stage, const Chunk& c);
// The chunks or pages that hold tensors of a wrap; and those of which it is the last user in the
// direction of the pass.
std::vector<Chunk*> chunks_of(Stage& stage, const Wrap& w);
std::vector<Chunk*> chunks_ended_by(Stage& stage, const Wrap& w, bool backward);
// A chunk is gathered whole when its first tensor is used, and dropped when its last one was.
void gather_chunks(Stage& stage, const Wrap& w, program::StreamIndex stream);
void drop_chunks(Stage& stage, const Wrap& w, bool backward);

}  // namespace stepcast::lower
