// Parameters in chunks (Colossal-AI's Gemini) or pages (Angel-PTM): what lies in which, and which
// of them live on the GPU.
//
// LAW  tensors in the order of the forward pass fill chunks of one capacity; none is cut: one that
// no
//      longer fits opens the next chunk, one that is larger than a chunk has one of its own size. A
//      chunk is stored, gathered and moved whole, with what is left empty in it. Of all chunks'
//      bytes the first are away until the share is reached. Pages are small chunks of a rank's
//      shard across which tensors are cut, one behind the other: only the last has room left. They
//      are stored and moved whole; what is gathered are units.
// SOURCE  colossalai/zero/gemini/chunk/manager.py (register_tensor), chunk.py (append_tensor),
//      placement_policy.py (StaticPlacementPolicy).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "builder.h"

namespace stepcast::lower {

struct Chunk {
  std::int64_t elements = 0;  // its capacity
  std::int64_t filled = 0;    // of these
  std::size_t first = 0;      // wraps whose tensors it holds
  std::size_t last = 0;
  bool away = false;
  // Where it stands while the passes run.
  bool whole = false;    // on every rank
  bool read = false;     // this rank's shard: on its way from the drives
  bool fetched = false;  // or from the host's memory
  std::uint32_t buffer = program::kNone;
};

enum class Pack { whole_tensors, cut_tensors };
// `tensors`: elements, by wrap in forward order. `capacity`: elements, a multiple of `ranks`, which
// every chunk is cut into. `away`: share of all capacity.
std::vector<Chunk> pack_chunks(const std::vector<std::vector<std::int64_t>>& tensors,
                               std::int64_t capacity, int ranks, double away, Pack pack);

struct Stage;
struct Wrap;

// Whether a stage's parameters lie in Gemini's chunks, or this rank's shards of them in pages, and
// those chunks or pages. Experts of a group of their own are moved as before.
void make_chunks(Stage& stage);
std::vector<Chunk>& stored(Stage& stage);
const std::vector<Chunk>& stored(const Stage& stage);
// This rank's shard of a chunk in the states' format, in bytes.
double shard_bytes(const Stage& stage, const Chunk& c);
// The chunks or pages with tensors of a wrap; and those of them that end with it in the direction
// of the pass.
std::vector<Chunk*> chunks_of(Stage& stage, const Wrap& w);
std::vector<Chunk*> chunks_ended_by(Stage& stage, const Wrap& w, bool backward);
// A chunk whose first tensor is used is gathered whole, and stays until its last one has been.
void gather_chunks(Stage& stage, const Wrap& w, program::StreamIndex stream);
void drop_chunks(Stage& stage, const Wrap& w, bool backward);

}  // namespace stepcast::lower
